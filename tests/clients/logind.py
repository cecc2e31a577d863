"""A logind that does what it is told, on the bus that DBUS_SYSTEM_BUS_ADDRESS names.

It reads a command a line from standard input, and says what happens, a line each, on standard output:

    sleep, wake, shutdown, stay   PrepareForSleep(true), (false), PrepareForShutdown(true), (false)
    inhibited WHAT                somebody holds an inhibitor of that kind
    released WHAT                 nobody does any more
"""

import os
import sys

import dbus
import dbus.mainloop.glib
import dbus.service
from gi.repository import GLib

MANAGER = "org.freedesktop.login1.Manager"
SIGNALS = {
    "sleep": ("PrepareForSleep", True),
    "wake": ("PrepareForSleep", False),
    "shutdown": ("PrepareForShutdown", True),
    "stay": ("PrepareForShutdown", False),
}


def say(*words):
    print(*words, flush=True)


class Logind(dbus.service.Object):
    """The part of logind's manager that this product uses."""

    @dbus.service.method(dbus.PROPERTIES_IFACE, in_signature="ss", out_signature="v")
    def Get(self, interface, name):
        return self.GetAll(interface)[name]

    @dbus.service.method(dbus.PROPERTIES_IFACE, in_signature="s", out_signature="a{sv}")
    def GetAll(self, interface):
        return {"InhibitDelayMaxUSec": dbus.UInt64(5_000_000)}

    @dbus.service.method(MANAGER, in_signature="ssss", out_signature="h")
    def Inhibit(self, what, who, why, mode):
        if mode != "delay" or ":" in what:
            raise dbus.DBusException("only delay, and one thing at a time", name="org.example.Refused")
        ours, theirs = os.pipe()

        def closed(descriptor, condition):
            os.close(descriptor)
            say("released", what)
            return False

        GLib.io_add_watch(ours, GLib.IO_HUP, closed)
        say("inhibited", what)
        handed = dbus.types.UnixFd(theirs)
        os.close(theirs)
        return handed

    @dbus.service.signal(MANAGER, signature="b")
    def PrepareForSleep(self, start):
        pass

    @dbus.service.signal(MANAGER, signature="b")
    def PrepareForShutdown(self, start):
        pass


def main():
    dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)
    bus = dbus.SystemBus()
    name = dbus.service.BusName("org.freedesktop.login1", bus)
    logind = Logind(name, "/org/freedesktop/login1")
    loop = GLib.MainLoop()

    def told(source, condition):
        line = sys.stdin.readline()
        if not line:
            loop.quit()
            return False
        signal, start = SIGNALS[line.strip()]
        getattr(logind, signal)(start)
        return True

    GLib.io_add_watch(sys.stdin, GLib.IO_IN | GLib.IO_HUP, told)
    say("ready")
    loop.run()


main()
