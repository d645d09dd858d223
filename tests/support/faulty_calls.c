/* Calls of the C library that fail now and then, for what lies below one folder, and a clock that
 * is wrong: preloaded into a process (LD_PRELOAD), and told what to do by a file that is mapped into
 * it and into the test (struct orders; tests/support/faulty_calls.py writes it).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MOST 65536
#define EXPORT __attribute__((visibility("default")))

struct orders {
    _Atomic int64_t room;    /* bytes that still fit on the disk; less than 0: no end of them */
    _Atomic int64_t share;   /* of a million calls so many fail */
    _Atomic int64_t error;   /* with this number */
    _Atomic int64_t applied; /* of a hundred of these so many after they took effect */
    _Atomic int64_t shift;   /* nanoseconds that the time of day is wrong by */
    _Atomic int64_t failed;  /* calls that were made to fail so far */
};

static struct orders nothing = {-1, 0, 0, 0, 0, 0};
static struct orders *orders = &nothing;
static const char *below = NULL;
static size_t length = 0;
static _Atomic unsigned char ours[MOST]; /* descriptors of what lies below the folder */

static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_linkat)(int, const char *, int, const char *, int);
static int (*real_renameat)(int, const char *, int, const char *);
static int (*real_mkdirat)(int, const char *, mode_t);
static int (*real_unlinkat)(int, const char *, int);
static int (*real_clock_gettime)(clockid_t, struct timespec *);

static void find(void *place, const char *name) { *(void **)place = dlsym(RTLD_NEXT, name); }

static void find_all(void) {
    if (real_openat != NULL) return;
    find(&real_close, "close");
    find(&real_read, "read");
    find(&real_pread, "pread64");
    find(&real_write, "write");
    find(&real_pwrite, "pwrite64");
    find(&real_fsync, "fsync");
    find(&real_fdatasync, "fdatasync");
    find(&real_linkat, "linkat");
    find(&real_renameat, "renameat");
    find(&real_mkdirat, "mkdirat");
    find(&real_unlinkat, "unlinkat");
    find(&real_clock_gettime, "clock_gettime");
    find(&real_openat, "openat64");
}

__attribute__((constructor)) static void begin(void) {
    find_all();
    const char *file = getenv("ADELTA_TEST_ORDERS");
    below = getenv("ADELTA_TEST_BELOW");
    if (file == NULL || below == NULL) return;
    length = strlen(below);
    int descriptor = real_openat(AT_FDCWD, file, O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    void *found = mmap(NULL, sizeof(struct orders), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    real_close(descriptor);
    if (found != MAP_FAILED) orders = found;
}

/* ---------------------------------------------------------------- what a call is about */

static int is_ours(int descriptor) {
    return descriptor >= 0 && descriptor < MOST && ours[descriptor];
}

static int is_below(int folder, const char *path) {
    if (length == 0 || path == NULL) return 0;
    if (strncmp(path, "/proc/self/fd/", 14) == 0) return is_ours(atoi(path + 14));
    if (path[0] != '/') return is_ours(folder);
    return strncmp(path, below, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static int64_t chance(int64_t of) {
    static _Thread_local uint64_t state = 0;
    if (state == 0) {
        struct timespec now;
        real_clock_gettime(CLOCK_MONOTONIC, &now);
        state = (uint64_t)now.tv_nsec ^ (uint64_t)(uintptr_t)&state;
    }
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)of);
}

enum { GOES_ON, FAILS, FAILS_AFTER };

static int fate_of(int64_t times) {
    if (orders->share == 0 || chance(1000000) >= orders->share * times) return GOES_ON;
    orders->failed++;
    return chance(100) < orders->applied ? FAILS_AFTER : FAILS;
}

static int fate(void) { return fate_of(1); }

static int refuse(void) {
    errno = (int)orders->error;
    return -1;
}

/* How much of a write fits; -1 where the disk is full. */
static ssize_t fits(size_t wanted) {
    int64_t room = orders->room, taken;
    do {
        if (room < 0) return (ssize_t)wanted;
        taken = room < (int64_t)wanted ? room : (int64_t)wanted;
    } while (!atomic_compare_exchange_weak(&orders->room, &room, room - taken));
    if (taken > 0 || wanted == 0) return (ssize_t)taken;
    orders->failed++;
    errno = ENOSPC;
    return -1;
}

static int is_full(void) {
    if (orders->room != 0) return 0;
    orders->failed++;
    errno = ENOSPC;
    return 1;
}

/* ------------------------------------------------------------------------ the calls */

static int opens(int folder, const char *path, int flags, mode_t mode) {
    find_all();
    if (!is_below(folder, path)) return real_openat(folder, path, flags, mode);
    if (fate() != GOES_ON) return refuse();
    if ((flags & O_CREAT) && is_full()) return -1;
    int descriptor = real_openat(folder, path, flags, mode);
    if (descriptor >= 0 && descriptor < MOST) ours[descriptor] = 1;
    return descriptor;
}

#define MODE(flags)                                                  \
    mode_t mode = 0;                                                 \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {                         \
        va_list rest;                                                \
        va_start(rest, flags);                                       \
        mode = va_arg(rest, mode_t);                                 \
        va_end(rest);                                                \
    }

EXPORT int open(const char *path, int flags, ...) {
    MODE(flags)
    return opens(AT_FDCWD, path, flags, mode);
}
EXPORT int open64(const char *path, int flags, ...) {
    MODE(flags)
    return opens(AT_FDCWD, path, flags, mode);
}
EXPORT int openat(int folder, const char *path, int flags, ...) {
    MODE(flags)
    return opens(folder, path, flags, mode);
}
EXPORT int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags)
    return opens(folder, path, flags, mode);
}
EXPORT int __open_2(const char *path, int flags) { return opens(AT_FDCWD, path, flags, 0); }
EXPORT int __open64_2(const char *path, int flags) { return opens(AT_FDCWD, path, flags, 0); }
EXPORT int __openat_2(int folder, const char *path, int flags) { return opens(folder, path, flags, 0); }
EXPORT int __openat64_2(int folder, const char *path, int flags) { return opens(folder, path, flags, 0); }

EXPORT int close(int descriptor) {
    find_all();
    if (is_ours(descriptor)) ours[descriptor] = 0;
    return real_close(descriptor);
}

EXPORT ssize_t read(int descriptor, void *to, size_t size) {
    find_all();
    if (is_ours(descriptor) && fate() != GOES_ON) return refuse();
    return real_read(descriptor, to, size);
}
EXPORT ssize_t __read_chk(int descriptor, void *to, size_t size, size_t there) {
    (void)there;
    return read(descriptor, to, size);
}
EXPORT ssize_t pread64(int descriptor, void *to, size_t size, off_t at) {
    find_all();
    if (is_ours(descriptor) && fate() != GOES_ON) return refuse();
    return real_pread(descriptor, to, size, at);
}
EXPORT ssize_t pread(int descriptor, void *to, size_t size, off_t at) {
    return pread64(descriptor, to, size, at);
}
EXPORT ssize_t __pread64_chk(int descriptor, void *to, size_t size, off_t at, size_t there) {
    (void)there;
    return pread64(descriptor, to, size, at);
}
EXPORT ssize_t __pread_chk(int descriptor, void *to, size_t size, off_t at, size_t there) {
    (void)there;
    return pread64(descriptor, to, size, at);
}

EXPORT ssize_t write(int descriptor, const void *from, size_t size) {
    find_all();
    if (!is_ours(descriptor)) return real_write(descriptor, from, size);
    int met = fate();
    if (met == FAILS) return refuse();
    ssize_t room = fits(size);
    if (room < 0) return -1;
    ssize_t done = real_write(descriptor, from, (size_t)room);
    return met == FAILS_AFTER ? refuse() : done;
}
EXPORT ssize_t pwrite64(int descriptor, const void *from, size_t size, off_t at) {
    find_all();
    if (!is_ours(descriptor)) return real_pwrite(descriptor, from, size, at);
    int met = fate();
    if (met == FAILS) return refuse();
    ssize_t room = fits(size);
    if (room < 0) return -1;
    ssize_t done = real_pwrite(descriptor, from, (size_t)room, at);
    return met == FAILS_AFTER ? refuse() : done;
}
EXPORT ssize_t pwrite(int descriptor, const void *from, size_t size, off_t at) {
    return pwrite64(descriptor, from, size, at);
}
EXPORT ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    ssize_t done = 0;
    for (int at = 0; at < count; at++) {
        ssize_t more = write(descriptor, pieces[at].iov_base, pieces[at].iov_len);
        if (more < 0) return done > 0 ? done : -1;
        done += more;
        if ((size_t)more < pieces[at].iov_len) break;
    }
    return done;
}

#define NAMES 10 /* there are few calls that change names, and much depends on them */
#define AFTER(concerned, call)                                       \
    find_all();                                                      \
    int met = (concerned) ? fate_of(NAMES) : GOES_ON;                \
    if (met == FAILS) return refuse();                               \
    int done = (call);                                               \
    return met == FAILS_AFTER ? refuse() : done;

EXPORT int fsync(int descriptor) { AFTER(is_ours(descriptor), real_fsync(descriptor)) }
EXPORT int fdatasync(int descriptor) { AFTER(is_ours(descriptor), real_fdatasync(descriptor)) }
EXPORT int linkat(int from, const char *old, int to, const char *name, int flags) {
    AFTER(is_below(to, name), is_below(to, name) && is_full() ? -1 : real_linkat(from, old, to, name, flags))
}
EXPORT int link(const char *old, const char *name) { return linkat(AT_FDCWD, old, AT_FDCWD, name, 0); }
EXPORT int renameat(int from, const char *old, int to, const char *name) {
    AFTER(is_below(to, name), real_renameat(from, old, to, name))
}
EXPORT int rename(const char *old, const char *name) { return renameat(AT_FDCWD, old, AT_FDCWD, name); }
EXPORT int mkdirat(int folder, const char *path, mode_t mode) {
    AFTER(is_below(folder, path), is_below(folder, path) && is_full() ? -1 : real_mkdirat(folder, path, mode))
}
EXPORT int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }
EXPORT int unlinkat(int folder, const char *path, int flags) {
    AFTER(is_below(folder, path), real_unlinkat(folder, path, flags))
}
EXPORT int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

/* ------------------------------------------------------------------------ the clock */

EXPORT int clock_gettime(clockid_t clock, struct timespec *now) {
    find_all();
    int done = real_clock_gettime(clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t nanoseconds = now->tv_nsec + orders->shift % 1000000000;
        now->tv_sec += orders->shift / 1000000000 + (nanoseconds >= 1000000000) - (nanoseconds < 0);
        now->tv_nsec = nanoseconds + 1000000000 * ((nanoseconds < 0) - (nanoseconds >= 1000000000));
    }
    return done;
}
EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}
EXPORT time_t time(time_t *place) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (place != NULL) *place = exact.tv_sec;
    return exact.tv_sec;
}
