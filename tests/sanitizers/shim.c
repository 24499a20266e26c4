/* What lies between the code that LLVM made of the module for ThreadSanitizer and the runtime of a GCC, loaded before
 * both. Rust's standard library is compiled without the sanitizer, and in two places it makes two threads wait for
 * each other in a way that the sanitizer does not see, and would report what is right:
 *
 * - Who lets go of an `Arc` counts down with a release, and only the last one acquires, by a fence. The sanitizer
 *   knows no fences, so every counting down with a release acquires here, too.
 * - A `Mutex` that is taken is waited for in the library. Its first attempt is in the module's code, and is a
 *   32-bit compare-and-exchange of 0 for 1 that acquires: here it is repeated until it succeeds.
 *
 * And a GCC before 13 has no calls to copy memory under the names that LLVM uses. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <string.h>

enum { ACQUIRE = 2, RELEASE = 3, ACQUIRE_RELEASE = 4 };

void *__tsan_memcpy(void *to, const void *from, size_t bytes) { return memcpy(to, from, bytes); }
void *__tsan_memmove(void *to, const void *from, size_t bytes) { return memmove(to, from, bytes); }
void *__tsan_memset(void *to, int byte, size_t bytes) { return memset(to, byte, bytes); }

static long (*subtract)(volatile long *, long, int);
static int (*exchange)(volatile int *, int, int, int, int);

__attribute__((constructor)) static void find(void) {
    subtract = dlsym(RTLD_NEXT, "__tsan_atomic64_fetch_sub");
    exchange = dlsym(RTLD_NEXT, "__tsan_atomic32_compare_exchange_val");
}

long __tsan_atomic64_fetch_sub(volatile long *place, long number, int order) {
    return subtract(place, number, order == RELEASE ? ACQUIRE_RELEASE : order);
}

int __tsan_atomic32_compare_exchange_val(volatile int *place, int old, int new, int order, int order_of_failure) {
    int was = exchange(place, old, new, order, order_of_failure);
    while (was != old && old == 0 && new == 1 && order == ACQUIRE) {
        sched_yield();
        was = exchange(place, old, new, order, order_of_failure);
    }
    return was;
}
