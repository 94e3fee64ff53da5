/* Faults at chosen calls of the system that change files below a folder; preloaded before libc.

   A process arms the library, then works; at the n-th call that changes a file below FAULT_FOLDER
   it is killed: before the call, amid it (half of the bytes are written) or after it. With `power`
   what was not synced until then is undone first, as when the machine loses its power. A thread may
   be held at its own n-th call instead, so that another one runs meanwhile. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { BEFORE, AMID, AFTER };
struct change { ino_t file; char path[PATH_MAX]; off_t at, size; size_t length; char *old; };

static long left = -1, calls = 0;
static int moment = AFTER, power = 0, held = 0;
static __thread long own_left = -1, hold_left = -1;
static struct change *changes;
static size_t count = 0, room = 0;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

#define REAL(type, name, ...) \
  static type (*real_##name)(__VA_ARGS__); \
  if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name)

void fault_arm(long at, int when, int cut) { left = at; moment = when; power = cut; calls = 0; }
void fault_arm_own(long at) { own_left = at; moment = BEFORE; }
void fault_hold_own(long at) { hold_left = at; }
int fault_held(void) { return held; }
long fault_calls(void) { return calls; }

static int below(const char *path) {
  const char *folder = getenv("FAULT_FOLDER");
  return folder && !strncmp(path, folder, strlen(folder));
}

static int named(int file, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t size = readlink(link, path, PATH_MAX - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return below(path);
}

static void undo(void) {
  REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t);
  REAL(int, ftruncate64, int, off64_t);
  while (count) {
    struct change *item = &changes[--count];
    int file = open(item->path, O_WRONLY);
    if (file < 0) continue;
    if (item->length) real_pwrite64(file, item->old, item->length, item->at);
    real_ftruncate64(file, item->size);
    close(file);
  }
}

static void die(void) {
  if (power) undo();
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

/* Whether the process dies at this call. */
static int counted(void) {
  if (hold_left >= 0 && hold_left-- == 0) {
    held = 1;
    for (;;) usleep(200);
  }
  if (own_left >= 0 && own_left-- == 0) die();
  if (left < 0) return 0;
  calls++;
  return left-- == 0;
}

static void remember(int file, const char *path, off_t at, size_t length, int cut) {
  if (!power) return;
  struct stat found;
  if (fstat(file, &found)) return;
  pthread_mutex_lock(&turn);
  if (count == room) changes = realloc(changes, (room = 2 * room + 64) * sizeof *changes);
  struct change *item = &changes[count++];
  item->file = found.st_ino, item->size = found.st_size, item->at = at;
  strcpy(item->path, path);
  if (cut) length = found.st_size > at ? found.st_size - at : 0;
  item->old = malloc(length + 1);
  ssize_t had = 0;
  int reading = open(path, O_RDONLY);
  if (reading >= 0) { had = pread(reading, item->old, length, at); close(reading); }
  item->length = had > 0 ? had : 0;
  pthread_mutex_unlock(&turn);
}

static void synced(int file) {
  struct stat found;
  if (!power || fstat(file, &found)) return;
  pthread_mutex_lock(&turn);
  size_t kept = 0;
  for (size_t k = 0; k < count; k++)
    if (changes[k].file != found.st_ino) changes[kept++] = changes[k];
  count = kept;
  pthread_mutex_unlock(&turn);
}

#define DYING(call, half) \
  if (counted()) { \
    if (moment == AFTER) { call; } \
    if (moment == AMID) { half; } \
    die(); \
  }

#define WRITES(name, offset, place) \
ssize_t name(int file, const void *data, size_t size, offset at) { \
  REAL(ssize_t, name, int, const void *, size_t, offset); \
  char path[PATH_MAX]; \
  if (named(file, path)) { \
    remember(file, path, place, size, 0); \
    DYING(real_##name(file, data, size, at), real_##name(file, data, size / 2, at)) \
  } \
  return real_##name(file, data, size, at); \
}
WRITES(pwrite, off_t, at)
WRITES(pwrite64, off64_t, at)

ssize_t write(int file, const void *data, size_t size) {
  REAL(ssize_t, write, int, const void *, size_t);
  char path[PATH_MAX];
  if (named(file, path)) {
    struct stat found;
    off_t at = lseek(file, 0, SEEK_CUR);
    if (fcntl(file, F_GETFL) & O_APPEND && !fstat(file, &found)) at = found.st_size;
    remember(file, path, at, size, 0);
    DYING(real_write(file, data, size), real_write(file, data, size / 2))
  }
  return real_write(file, data, size);
}

#define SYNCS(name) \
int name(int file) { \
  REAL(int, name, int); \
  char path[PATH_MAX]; \
  if (!named(file, path)) return real_##name(file); \
  DYING((real_##name(file), synced(file)), (void)0) \
  int result = real_##name(file); \
  synced(file); \
  return result; \
}
SYNCS(fsync)
SYNCS(fdatasync)

#define CUTS(name, offset) \
int name(int file, offset size) { \
  REAL(int, name, int, offset); \
  char path[PATH_MAX]; \
  if (named(file, path)) { \
    remember(file, path, size, 0, 1); \
    DYING(real_##name(file, size), (void)0) \
  } \
  return real_##name(file, size); \
}
CUTS(ftruncate, off_t)
CUTS(ftruncate64, off64_t)

#define NAMES(name) \
int name(const char *from, const char *to) { \
  REAL(int, name, const char *, const char *); \
  if (below(to)) { DYING(real_##name(from, to), (void)0) } \
  return real_##name(from, to); \
}
NAMES(rename)
NAMES(link)

int unlink(const char *path) {
  REAL(int, unlink, const char *);
  if (below(path)) { DYING(real_unlink(path), (void)0) }
  return real_unlink(path);
}
