/* marks_waits - kinds of marks.h: system calls that wait, each with a time limit, or without one until
 * a child does something. None may return EINTR or too early unless a signal of the program itself has
 * come: with the word "alarms" or "restarts" there is a timer, whose handler restarts system calls or
 * does not. */
#include "marks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_MS = 200, LATE_S = 60 };
#define LIMIT_NS (LIMIT_MS * 1000000L)

static const struct timespec limit = {0, LIMIT_NS};
static volatile sig_atomic_t alarms;
static int pair[2], ends[2], queue, semaphore, messages, listening;
static atomic_uint *word;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void alarms_begin(const char *how)
{
    const struct itimerval often = {{0, 33333}, {0, 33333}};
    struct sigaction action = {.sa_handler = on_alarm};
    if (!how) return;
    if (strcmp(how, "restarts") == 0) action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

/* What most of the calls need. */
static void things_begin(const char *how)
{
    const struct timeval time = {0, LIMIT_MS * 1000};
    const struct sockaddr_un anywhere = {.sun_family = AF_UNIX};
    sigset_t user;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0 || pipe(ends) != 0) exit(3);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    queue = epoll_create1(0);
    listening = socket(AF_UNIX, SOCK_STREAM, 0);
    bind(listening, (const struct sockaddr *)&anywhere, sizeof(sa_family_t));
    listen(listening, 1);
    semaphore = semget(IPC_PRIVATE, 1, 0600 | IPC_CREAT);
    messages = msgget(IPC_PRIVATE, 0600 | IPC_CREAT);
    word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    sigprocmask(SIG_BLOCK, &user, NULL);
    alarms_begin(how);
}

static void things_end(void)
{
    semctl(semaphore, 0, IPC_RMID);
    msgctl(messages, IPC_RMID, NULL);
}

/* ---- with a limit ---- */

static void limit_check(const char *what, double begun, int error, long before)
{
    const double took = marks_now() - begun;
    if (alarms != before) return;
    if (error == EINTR) marks_fail(what, EINTR);
    if (took < LIMIT_MS / 1000.0 - 0.002) marks_fail("a wait ended early, us", (long)(took * 1e6));
    if (took > LATE_S) marks_fail("a wait ended late, us", (long)(took * 1e6));
}

#define LIMITED(name, call)                                        \
    static void limited_##name(void)                               \
    {                                                              \
        const double begun = marks_now();                          \
        const long before = alarms;                                \
        errno = 0;                                                 \
        const long result = (long)(call);                          \
        limit_check(#name, begun, result < 0 ? errno : 0, before); \
    }

static struct epoll_event event;
static struct pollfd nothing = {.fd = -1};
static struct sembuf down = {0, -1, 0};
static struct timeval select_limit;
static struct timespec left;
static char byte;

static struct timespec later(clockid_t clock)
{
    static struct timespec time;
    clock_gettime(clock, &time);
    time.tv_nsec += LIMIT_NS;
    if (time.tv_nsec >= 1000000000) {
        time.tv_nsec -= 1000000000;
        time.tv_sec++;
    }
    return time;
}

static const sigset_t *users(void)
{
    static sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return &set;
}

static const sigset_t *no_signals(void)
{
    static sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return &set;
}

static long select_once(void)
{
    select_limit = (struct timeval){0, LIMIT_MS * 1000};
    return select(0, NULL, NULL, NULL, &select_limit);
}

static long cond_once(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    const struct timespec until = later(CLOCK_REALTIME);
    pthread_mutex_lock(&lock);
    errno = pthread_cond_timedwait(&never, &lock, &until);
    pthread_mutex_unlock(&lock);
    return -1;
}

static long timer_once(void)
{
    const struct itimerspec one = {{0, 0}, limit};
    uint64_t count;
    const int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(timer, 0, &one, NULL);
    const long result = read(timer, &count, sizeof count);
    const int error = errno;
    close(timer);
    errno = error;
    return result;
}

static long io_once(void)
{
    static aio_context_t context;
    struct io_event done;
    struct timespec time = limit;
    if (context == 0) syscall(SYS_io_setup, 4, &context);
    return syscall(SYS_io_getevents, context, 1L, 1L, &done, &time);
}

static long uring_once(void)
{
    static int ring;
    struct __kernel_timespec time = {0, LIMIT_NS};
    const struct io_uring_getevents_arg more = {.ts = (uintptr_t)&time};
    struct io_uring_params parameters = {0};
    if (ring == 0) ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    if (ring < 0) {
        nanosleep(&limit, NULL); /* not here */
        return 0;
    }
    return syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                   &more, sizeof more);
}

static long mq_once(void)
{
    static mqd_t mq;
    char name[64];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    const struct timespec until = later(CLOCK_REALTIME);
    snprintf(name, sizeof name, "/malloctape-marks-%d", (int)getpid());
    if (mq == 0) mq = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
    mq_unlink(name);
    if (mq < 0) {
        nanosleep(&limit, NULL);
        return 0;
    }
    char text[8];
    return mq_timedreceive(mq, text, sizeof text, NULL, &until);
}

static long until_once(void)
{
    const struct timespec until = later(CLOCK_MONOTONIC);
    errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    return errno != 0 ? -1 : 0;
}

static long clock_once(void)
{
    errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &limit, &left);
    return errno != 0 ? -1 : 0;
}

LIMITED(epoll_wait, epoll_wait(queue, &event, 1, LIMIT_MS))
LIMITED(epoll_pwait, epoll_pwait(queue, &event, 1, LIMIT_MS, no_signals()))
LIMITED(epoll_pwait2, epoll_pwait2(queue, &event, 1, &limit, NULL))
LIMITED(poll, poll(&nothing, 1, LIMIT_MS))
LIMITED(ppoll, ppoll(&nothing, 1, &limit, no_signals()))
LIMITED(select, select_once())
LIMITED(pselect, pselect(0, NULL, NULL, NULL, &limit, no_signals()))
LIMITED(recv, recv(pair[0], &byte, 1, 0))
LIMITED(recvmsg,
        recvmsg(pair[0], &(struct msghdr){.msg_iov = &(struct iovec){&byte, 1}, .msg_iovlen = 1},
                0))
LIMITED(read_socket, read(pair[0], &byte, 1))
LIMITED(sigtimedwait, sigtimedwait(users(), NULL, &limit))
LIMITED(semtimedop, semtimedop(semaphore, &down, 1, &limit))
LIMITED(nanosleep, nanosleep(&limit, &left))
LIMITED(clock_nanosleep, clock_once())
LIMITED(until, until_once())
LIMITED(futex, syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &limit, NULL, 0))
LIMITED(cond, cond_once())
LIMITED(timerfd, timer_once())
LIMITED(io_getevents, io_once())
LIMITED(io_uring, uring_once())
LIMITED(mq, mq_once())

static void accept_begin(const char *how)
{
    const struct timeval time = {0, LIMIT_MS * 1000};
    things_begin(how);
    setsockopt(listening, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

LIMITED(accept, accept(listening, NULL, NULL))

/* ---- without: a child ends each wait ---- */

/* Forks a child that calls `wake` again and again, until this process ends. */
static void waker_begin(void (*wake)(void))
{
    if (fork() != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        usleep(1000 * (5 + marks_random(100)));
        wake();
    }
}

static void endless_check(const char *what, long result, long before)
{
    if (result < 0 && alarms == before) marks_fail(what, errno);
}

#define ENDLESS(name, call, wake)                                             \
    static void wake_##name(void)                                             \
    {                                                                         \
        if ((wake) < 0) _exit(0);                                             \
    }                                                                         \
    static void begin_##name(const char *how)                                 \
    {                                                                         \
        things_begin(NULL);                                                   \
        setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 0}, \
                   sizeof(struct timeval));                                   \
        waker_begin(wake_##name);                                             \
        alarms_begin(how);                                                    \
    }                                                                         \
    static void endless_##name(void)                                          \
    {                                                                         \
        const long before = alarms;                                           \
        endless_check(#name, (long)(call), before);                           \
    }

static long epoll_once(void)
{
    static bool is_open;
    event.events = EPOLLIN;
    if (!is_open) epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &event);
    is_open = true;
    const int result = epoll_wait(queue, &event, 1, -1);
    return result == 1 && read(ends[0], &byte, 1) == 1 ? 0 : result;
}

static long poll_once(void)
{
    struct pollfd one = {.fd = ends[0], .events = POLLIN};
    const int result = poll(&one, 1, -1);
    return result == 1 && read(ends[0], &byte, 1) == 1 ? 0 : result;
}

static struct {
    long kind;
    char text[8];
} message = {1, ""};

static long futex_wait(void)
{
    const unsigned seen = *word;
    const long result = syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
    return result < 0 && errno == EAGAIN ? 0 : result;
}

static long futex_wake(void)
{
    ++*word;
    return syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static int lock_file;

static long flock_once(void)
{
    char path[64];
    if (lock_file == 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
        lock_file = open("/proc/self/exe", O_RDONLY);
    }
    const long result = flock(lock_file, LOCK_EX);
    if (result == 0) flock(lock_file, LOCK_UN);
    return result;
}

static long flock_hold(void)
{
    if (lock_file == 0) lock_file = open("/proc/self/exe", O_RDONLY);
    flock(lock_file, LOCK_EX);
    usleep(50000);
    return flock(lock_file, LOCK_UN);
}

static long wait_once(void)
{
    const pid_t child = fork();
    if (child == 0) {
        usleep(100000);
        _exit(0);
    }
    long result;
    do
        result = waitpid(child, NULL, 0);
    while (result < 0 && errno == EINTR && alarms != 0);
    return result;
}

ENDLESS(epoll, epoll_once(), write(ends[1], "", 1))
ENDLESS(poll, poll_once(), write(ends[1], "", 1))
ENDLESS(read, read(ends[0], &byte, 1), write(ends[1], "", 1))
ENDLESS(recv, recv(pair[0], &byte, 1, 0), write(pair[1], "", 1))
ENDLESS(semop, semop(semaphore, &down, 1), semop(semaphore, &(struct sembuf){0, 1, 0}, 1))
ENDLESS(sigwaitinfo, sigwaitinfo(users(), NULL), kill(getppid(), SIGUSR1))
ENDLESS(msgrcv, msgrcv(messages, &message, 8, 0, 0), msgsnd(messages, &message, 8, 0))
ENDLESS(futex, futex_wait(), futex_wake())
ENDLESS(flock, flock_once(), flock_hold())
ENDLESS(waitpid, wait_once(), usleep(1000))

#define LIMITED_KIND(of)                                                            \
    {                                                                               \
        .name = #of, .begin = things_begin, .once = limited_##of, .end = things_end \
    }
#define ENDLESS_KIND(of)                                                                     \
    {                                                                                        \
        .name = "endless_" #of, .begin = begin_##of, .once = endless_##of, .end = things_end \
    }
const struct marks_kind marks_waits[] = {
    LIMITED_KIND(epoll_wait),
    LIMITED_KIND(epoll_pwait),
    LIMITED_KIND(epoll_pwait2),
    LIMITED_KIND(poll),
    LIMITED_KIND(ppoll),
    LIMITED_KIND(select),
    LIMITED_KIND(pselect),
    LIMITED_KIND(recv),
    LIMITED_KIND(recvmsg),
    LIMITED_KIND(read_socket),
    LIMITED_KIND(sigtimedwait),
    LIMITED_KIND(semtimedop),
    LIMITED_KIND(nanosleep),
    LIMITED_KIND(clock_nanosleep),
    LIMITED_KIND(until),
    LIMITED_KIND(futex),
    LIMITED_KIND(cond),
    LIMITED_KIND(timerfd),
    LIMITED_KIND(io_getevents),
    LIMITED_KIND(io_uring),
    LIMITED_KIND(mq),
    {.name = "accept", .begin = accept_begin, .once = limited_accept, .end = things_end},
    ENDLESS_KIND(epoll),
    ENDLESS_KIND(poll),
    ENDLESS_KIND(read),
    ENDLESS_KIND(recv),
    ENDLESS_KIND(semop),
    ENDLESS_KIND(sigwaitinfo),
    ENDLESS_KIND(msgrcv),
    ENDLESS_KIND(futex),
    ENDLESS_KIND(flock),
    ENDLESS_KIND(waitpid),
    {.name = NULL}};
