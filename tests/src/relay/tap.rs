//! A TAP device: an Ethernet interface whose other end is a file.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, Result, ensure};
use rustix::fs::OFlags;
use rustix::ioctl::{Setter, ioctl, opcode};

/// The longest frame: what the interface's MTU of 1,500 allows, with room for a VLAN tag.
pub(super) const MAX_FRAME_BYTES: usize = 1600;

/// Linux's `IFF_TAP | IFF_NO_PI`: Ethernet frames, nothing before them.
const FLAGS: u16 = 0x0002 | 0x1000;

/// Linux's limit for an interface's name, its closing zero included.
const NAME_BYTES: usize = 16;

/// Linux's `struct ifreq` as `TUNSETIFF` reads it.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: u16,
    rest: [u8; 22],
}

/// The file's end of a TAP device. The interface lives as long as this.
pub(super) struct Tap(File);

impl Tap {
    /// Makes an interface of this name in the namespace of the calling thread.
    pub(super) fn open(name: &str) -> Result<Self> {
        ensure!(name.len() < NAME_BYTES, "interface name {name} is too long");
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .custom_flags(nonblocking)
            .open("/dev/net/tun")
            .context("open /dev/net/tun")?;
        let mut request = InterfaceRequest { name: [0; NAME_BYTES], flags: FLAGS, rest: [0; 22] };
        request.name[..name.len()].copy_from_slice(name.as_bytes());
        create(&file, request).with_context(|| format!("make TAP device {name}"))?;
        Ok(Self(file))
    }

    /// Reads a frame into `buffer`; none where there is none, or no device any more.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        (&self.0).read(buffer).ok()
    }

    /// Writes a frame; says whether the interface took it.
    pub(super) fn write(&self, frame: &[u8]) -> bool {
        (&self.0).write(frame).is_ok_and(|written| written == frame.len())
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[expect(unsafe_code, reason = "no crate in use makes a TAP device")]
fn create(file: &File, request: InterfaceRequest) -> rustix::io::Result<()> {
    /// `TUNSETIFF`: group 'T', number 202; its size is written as an int's, whatever it reads.
    const TUNSETIFF: rustix::ioctl::Opcode = opcode::write::<i32>(b'T', 202);
    // SAFETY: TUNSETIFF reads a `struct ifreq` of 40 bytes from the pointer and writes the name back into it; the
    // request is one by `repr(C)` (16 + 2 + 22 bytes), and it is owned by the setter for the length of the call.
    unsafe { ioctl(file, Setter::<TUNSETIFF, InterfaceRequest>::new(request)) }
}

const _: () = assert!(size_of::<InterfaceRequest>() == 40, "the size of Linux's struct ifreq");
