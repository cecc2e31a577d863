//! A compositor that does nothing but tell about idleness: `ext_idle_notifier_v1` and a seat, as KWin and wlroots offer them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use wayland_protocols::ext::idle_notify::v1::server::ext_idle_notification_v1::{self, ExtIdleNotificationV1};
use wayland_protocols::ext::idle_notify::v1::server::ext_idle_notifier_v1::{self, ExtIdleNotifierV1};
use wayland_server::backend::ClientData;
use wayland_server::protocol::wl_seat::{self, WlSeat};
use wayland_server::{Client, DataInit, Dispatch, Display, DisplayHandle, GlobalDispatch, ListeningSocket, New};

use crate::Lab;

/// How often it looks at its clients and its clock. Input is told within this.
const TICK: Duration = Duration::from_millis(1);

/// What a test tells it.
enum Command {
    Input,
    /// A program shows a film, or stops.
    Inhibit(bool),
    /// Does not answer any more.
    Freeze,
}

/// The compositor. It ends when it is dropped.
pub struct Compositor {
    commands: SyncSender<Command>,
    socket: PathBuf,
}

impl Compositor {
    /// Starts one.
    pub fn start(lab: &Lab) -> Result<Self> {
        let socket = lab.directory("compositor")?.join("wayland-7");
        let listener = ListeningSocket::bind_absolute(socket.clone()).context("listen for Wayland clients")?;
        let display: Display<State> = Display::new().context("make a display")?;
        display.handle().create_global::<State, WlSeat, ()>(1, ());
        display.handle().create_global::<State, ExtIdleNotifierV1, ()>(1, ());
        let (commands, orders) = sync_channel(8);
        thread::spawn(move || serve(display, &listener, &orders));
        Ok(Self { commands, socket })
    }

    /// Its socket, for `WAYLAND_DISPLAY`.
    pub fn socket(&self) -> &PathBuf {
        &self.socket
    }

    /// Input at its seat; says when.
    pub fn input(&self) -> Result<Instant> {
        let began = Instant::now();
        self.commands.send(Command::Input).context("the compositor ended")?;
        Ok(began)
    }

    /// Whether a program keeps the seat from being idle.
    pub fn inhibit(&self, on: bool) -> Result<()> {
        self.commands.send(Command::Inhibit(on)).context("the compositor ended")
    }

    /// It accepts from now on, and says nothing.
    pub fn freeze(&self) -> Result<()> {
        self.commands.send(Command::Freeze).context("the compositor ended")
    }
}

struct State {
    notifications: Vec<Notification>,
    last_input: Instant,
    is_inhibited: bool,
}

struct Notification {
    told: ExtIdleNotificationV1,
    timeout: Duration,
    is_idle: bool,
}

struct NoData;

impl ClientData for NoData {}

fn serve(mut display: Display<State>, listener: &ListeningSocket, orders: &Receiver<Command>) {
    let mut state = State { notifications: Vec::new(), last_input: Instant::now(), is_inhibited: false };
    let mut is_frozen = false;
    loop {
        match orders.try_recv() {
            Ok(Command::Input) => state.last_input = Instant::now(),
            Ok(Command::Inhibit(on)) => (state.is_inhibited, state.last_input) = (on, Instant::now()),
            Ok(Command::Freeze) => is_frozen = true,
            Err(TryRecvError::Empty) => thread::sleep(TICK),
            Err(TryRecvError::Disconnected) => return,
        }
        if is_frozen {
            continue;
        }
        while let Ok(Some(stream)) = listener.accept() {
            // One that is gone already is no client.
            let _ = display.handle().insert_client(stream, Arc::new(NoData));
        }
        let _ = display.dispatch_clients(&mut state);
        state.tell();
        let _ = display.flush_clients();
    }
}

impl State {
    fn tell(&mut self) {
        let idle_for = self.last_input.elapsed();
        for notification in &mut self.notifications {
            let is_idle = !self.is_inhibited && idle_for >= notification.timeout;
            match (std::mem::replace(&mut notification.is_idle, is_idle), is_idle) {
                (false, true) => notification.told.idled(),
                (true, false) => notification.told.resumed(),
                (true, true) | (false, false) => {}
            }
        }
    }
}

impl GlobalDispatch<WlSeat, ()> for State {
    fn bind(_: &mut Self, _: &DisplayHandle, _: &Client, seat: New<WlSeat>, (): &(), init: &mut DataInit<'_, Self>) {
        init.init(seat, ());
    }
}

impl Dispatch<WlSeat, ()> for State {
    fn request(
        _: &mut Self,
        _: &Client,
        _: &WlSeat,
        _: wl_seat::Request,
        (): &(),
        _: &DisplayHandle,
        _: &mut DataInit<'_, Self>,
    ) {
    }
}

impl GlobalDispatch<ExtIdleNotifierV1, ()> for State {
    fn bind(
        _: &mut Self,
        _: &DisplayHandle,
        _: &Client,
        notifier: New<ExtIdleNotifierV1>,
        (): &(),
        init: &mut DataInit<'_, Self>,
    ) {
        init.init(notifier, ());
    }
}

impl Dispatch<ExtIdleNotifierV1, ()> for State {
    fn request(
        state: &mut Self,
        _: &Client,
        _: &ExtIdleNotifierV1,
        request: ext_idle_notifier_v1::Request,
        (): &(),
        _: &DisplayHandle,
        init: &mut DataInit<'_, Self>,
    ) {
        if let ext_idle_notifier_v1::Request::GetIdleNotification { id, timeout, .. } = request {
            let timeout = Duration::from_millis(u64::from(timeout));
            // The time counts from here.
            state.last_input = Instant::now();
            state.notifications.push(Notification { told: init.init(id, ()), timeout, is_idle: false });
        }
    }
}

impl Dispatch<ExtIdleNotificationV1, ()> for State {
    fn request(
        _: &mut Self,
        _: &Client,
        _: &ExtIdleNotificationV1,
        _: ext_idle_notification_v1::Request,
        (): &(),
        _: &DisplayHandle,
        _: &mut DataInit<'_, Self>,
    ) {
    }
}
