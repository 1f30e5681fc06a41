"""Programs whose processes try to get away: sessions and groups of their own, dead parents, storms of forks."""

from __future__ import annotations

TREE = """
import json, os, signal, sys, threading, time

def rest():
    while True:
        signal.pause()

def fork(work):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        work(lambda **pids: os.write(write, json.dumps(pids).encode() + b"\\n"))
        rest()
    os.close(write)
    with os.fdopen(read) as said:
        return child, json.loads(said.readline())

def thread():
    threading.Thread(target=lambda: [time.sleep(0.01) for _ in iter(int, 1)], daemon=True).start()

def threads(say):
    for _ in range(3):
        thread()
    say()

def session(say):
    os.setsid()
    child, _ = fork(lambda say: say())
    say(in_session=child)

def orphan(say):
    # Between the two forks the one in the middle ends: init or a sub-reaper takes the child.
    child, _ = fork(lambda say: say())
    say(orphan=child)
    os._exit(0)

def group(say):
    os.setpgid(0, 0)
    middle, pids = fork(orphan)
    os.waitpid(middle, 0)
    say(in_group=pids["orphan"])

def late(say):
    # A daemon in the making: out of every group of the job while its parent still lives.
    def daemon(say):
        os.setsid()
        say()
    os.setsid()
    child, _ = fork(daemon)
    say(late=child)

pids = {"main": os.getpid()}
pids["threads"], _ = fork(threads)
pids["session"], more = fork(session)
pids.update(more)
middle, more = fork(orphan)
os.waitpid(middle, 0)
pids.update(more)
pids["group"], more = fork(group)
pids.update(more)
if "late" in sys.argv:
    middle, more = fork(late)
    pids.update(more, middle=middle)

    def leave(number, frame):
        os.kill(middle, signal.SIGKILL)
        os.waitpid(middle, 0)
        os.kill(pids["group"], signal.SIGKILL)
        os.waitpid(pids["group"], 0)
        print("left", flush=True)
    signal.signal(signal.SIGUSR1, leave)
thread()
print(json.dumps(pids), flush=True)
rest()
"""
"""Prints the pids of its tree. With ``late`` it ends, on SIGUSR1, a parent and a group's leader that were there."""

STORM = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nap(long ms) {
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&pause, NULL);
}

/* A lineage that never stands still: each one lives for `ms`, and its child goes on. */
static void hop(long ms) {
    for (;;) {
        nap(ms);
        if (fork() > 0) _exit(0);
    }
}

/* storm LIVE LIFE_MS HOPPERS [vfork]: at most LIVE children at a time, each of which lives LIFE_MS. */
int main(int argc, char **argv) {
    volatile int live = 0; /* kept over vfork */
    int most = atoi(argv[1]), by_vfork = argc > 4 && !strcmp(argv[4], "vfork");
    long life = atol(argv[2]);
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%.3f", life / 1000.0);
    for (int i = atoi(argv[3]); i > 0; i--)
        if (fork() == 0) hop(15);
    puts("on");
    fflush(stdout);
    for (;;) {
        while (live > 0 && waitpid(-1, NULL, WNOHANG) > 0) live--;
        if (live >= most) {
            nap(1);
            continue;
        }
        pid_t child = by_vfork ? vfork() : fork();
        if (child == 0) {
            if (by_vfork) {
                nap(100); /* an exec over NFS: the parent stands still in the kernel meanwhile */
                execlp("sleep", "sleep", seconds, (char *)NULL);
                _exit(127);
            }
            nap(life);
            _exit(0);
        }
        if (child > 0) live++;
        else nap(1);
    }
}
"""
"""Forks without end, with a bound on how many live at a time."""
