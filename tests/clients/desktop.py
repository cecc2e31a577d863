"""A scripted logind (system bus) or GNOME session manager (session bus), for tests of the owner's detector.

    desktop.py logind | desktop.py gnome

Reads one command a line from standard input, and answers each with a line, `ok` or what went wrong. Ends with its input.

    session ID UID USER TYPE    somebody logs in, in front, at TYPE (wayland, x11, tty)
    set ID NAME JSON            a property of a session, such as LockedHint true
    unlock ID                   the login screen lets somebody in, and has the session unlocked
    end ID                      somebody logs out
    inhibit WHO WHY             a program keeps the session from being idle (the words may hold no blanks)
    release                     nothing does any more
    hang SECONDS                answers nobody for so long
"""

import json
import os
import sys
import time

import dbus
import dbus.mainloop.glib
import dbusmock
from gi.repository import GLib

LOGIND = "org.freedesktop.login1"
SESSION = LOGIND + ".Session"
MANAGER = LOGIND + ".Manager"
GNOME = "org.gnome.SessionManager"

dbus.mainloop.glib.DBusGMainLoop(set_as_default=True)


class Logind:
    def __init__(self):
        self.bus = dbus.SystemBus()
        self.name = dbus.service.BusName(LOGIND, self.bus, do_not_queue=True)
        self.root = dbusmock.mockobject.DBusMockObject(self.name, "/org/freedesktop/login1", MANAGER, {}, os.devnull)
        self.root.AddTemplate("logind", {})
        dbusmock.mockobject.objects["/org/freedesktop/login1"] = self.root
        dbusmock.mockobject.inhibitors = []

    @staticmethod
    def at(name):
        return dbusmock.get_object(f"/org/freedesktop/login1/session/{name}")

    def session(self, name, uid, user, kind):
        path = self.root.AddSession(name, "seat0", dbus.UInt32(int(uid)), user, True)
        self.at(name).UpdateProperties(SESSION, {"Type": kind, "Display": ""})
        self.root.EmitSignal(MANAGER, "SessionNew", "so", [name, dbus.ObjectPath(path)])

    def set(self, name, key, value):
        value = json.loads(value)
        value = {bool: dbus.Boolean, int: dbus.UInt64, str: dbus.String}[type(value)](value)
        self.at(name).UpdateProperties(SESSION, {key: value})

    def unlock(self, name):
        self.at(name).EmitSignal(SESSION, "Unlock", "", [])

    def end(self, name):
        self.root.RemoveObject(f"/org/freedesktop/login1/session/{name}")
        self.root.EmitSignal(MANAGER, "SessionRemoved", "so", [name, dbus.ObjectPath("/")])

    def inhibit(self, who, why):
        dbusmock.mockobject.inhibitors = [("idle", who, why, "block", dbus.UInt32(0), dbus.UInt32(1))]
        self.tell()

    def release(self):
        dbusmock.mockobject.inhibitors = []
        self.tell()

    def tell(self):
        changed = dbus.Dictionary({"BlockInhibited": "idle"}, signature="sv")
        self.root.EmitSignal(
            dbus.PROPERTIES_IFACE, "PropertiesChanged", "sa{sv}as", [MANAGER, changed, dbus.Array([], signature="s")]
        )


class Gnome:
    def __init__(self):
        self.bus = dbus.SessionBus()
        self.name = dbus.service.BusName(GNOME, self.bus, do_not_queue=True)
        self.root = dbusmock.mockobject.DBusMockObject(self.name, "/org/gnome/SessionManager", GNOME, {}, os.devnull)
        dbusmock.mockobject.objects["/org/gnome/SessionManager"] = self.root
        self.root.by = []
        self.root.AddMethod(GNOME, "IsInhibited", "u", "b", "ret = bool(args[0] & 8 and self.by)")
        self.root.AddMethod(GNOME, "GetInhibitors", "", "ao", "ret = self.by")

    def inhibit(self, who, why):
        path = "/org/gnome/SessionManager/Inhibitor1"
        inhibitor = "org.gnome.SessionManager.Inhibitor"
        methods = [
            ("GetFlags", "", "u", "ret = 8"),
            ("GetAppId", "", "s", f"ret = {who!r}"),
            ("GetReason", "", "s", f"ret = {why!r}"),
        ]
        self.root.AddObject(path, inhibitor, {}, methods)
        self.root.by = [dbus.ObjectPath(path)]
        self.root.EmitSignal(GNOME, "InhibitorAdded", "o", [dbus.ObjectPath(path)])

    def release(self):
        path = "/org/gnome/SessionManager/Inhibitor1"
        self.root.by = []
        self.root.RemoveObject(path)
        self.root.EmitSignal(GNOME, "InhibitorRemoved", "o", [dbus.ObjectPath(path)])


def main():
    part = {"logind": Logind, "gnome": Gnome}[sys.argv[1]]()
    loop = GLib.MainLoop()

    def obey(_source, _condition):
        line = sys.stdin.readline()
        if not line:
            loop.quit()
            return False
        word, *arguments = line.split()
        try:
            if word == "hang":
                print("ok", flush=True)
                time.sleep(float(arguments[0]))
                return True
            getattr(part, word)(*arguments)
            print("ok", flush=True)
        except Exception as error:  # the test shows it
            print(repr(error).replace("\n", " "), flush=True)
        return True

    GLib.io_add_watch(sys.stdin, GLib.PRIORITY_DEFAULT, GLib.IO_IN | GLib.IO_HUP, obey)
    print("ok", flush=True)
    loop.run()


main()
