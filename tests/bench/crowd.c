/* A crowd of processes for the measurements: families that each lead a session, their members asleep, a few at work.
 *
 *   crowd root FAMILIES MEMBERS WORKERS   FAMILIES x (1 + MEMBERS) processes below this one; all end with its stdin
 *   crowd family ID MEMBERS WORKERS       one session; of its members the first WORKERS work
 *   crowd sleep ... | crowd work ...      a member; the rest of its arguments is for the eye
 *
 * Every process but the root writes one dot to stdout when it is there. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define WORK_NS 200000L     /* of CPU each time ... */
#define PAUSE_NS 100000000L /* ... it wakes */
#define BREATH 20           /* wakes between a change of its memory */
#define MEMORY (1 << 20)

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* Starts this program again with other arguments; it ends when its parent does, however that ends. */
static void spawn(char *const arguments[]) {
    pid_t parent = getpid(), pid = fork();
    if (pid < 0) die("fork");
    if (pid > 0) return;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent) exit(1);
    execv("/proc/self/exe", arguments);
    die("execv");
}

static void announce(void) {
    if (write(1, ".", 1) != 1) exit(1);
    close(1);
}

static double cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static void work(void) {
    struct timespec pause = {0, PAUSE_NS};
    char *memory = NULL;
    for (unsigned wakes = 0;; wakes++) {
        double end = cpu_ns() + WORK_NS;
        while (cpu_ns() < end) {
        }
        if (wakes % BREATH == 0) {
            if (memory) {
                munmap(memory, MEMORY);
                memory = NULL;
            } else {
                memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (memory == MAP_FAILED) die("mmap");
                memset(memory, 1, MEMORY);
            }
        }
        nanosleep(&pause, NULL);
    }
}

static void family(const char *name, int members, int workers) {
    char rank[16], port[16];
    setsid();
    for (int i = 0; i < members; i++) {
        snprintf(rank, sizeof rank, "%d", i);
        snprintf(port, sizeof port, "%d", 20000 + i);
        spawn((char *[]){"crowd", i < workers ? "work" : "sleep", "--model", "/data/models/draft-of-a-large-model",
                         "--run", (char *)name, "--rank", rank, "--port", port, NULL});
    }
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    if (!strcmp(arguments[1], "root") && count == 5) {
        int workers = atoi(arguments[4]), families = atoi(arguments[2]);
        for (int i = 0; i < families; i++) {
            char name[16], mine[16];
            snprintf(name, sizeof name, "%d", i);
            snprintf(mine, sizeof mine, "%d", workers / families + (i < workers % families));
            spawn((char *[]){"crowd", "family", name, arguments[3], mine, NULL});
        }
        char byte;
        while (read(0, &byte, 1) > 0) {
        }
        return 0;
    }
    if (!strcmp(arguments[1], "family") && count == 5) family(arguments[2], atoi(arguments[3]), atoi(arguments[4]));
    announce();
    if (!strcmp(arguments[1], "work")) work();
    for (;;) pause();
}
