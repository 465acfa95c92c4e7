// Runs kernels: the threads of a block one after the other in one OS thread. A thread that waits keeps its stack, and
// the next ones run on another; so a kernel without barriers is a plain loop, and one with barriers needs no mark.
#include "cuda_emulator.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

extern "C" {
uint3 cu_thread_index, cu_block_index, cu_block_size, cu_grid_size;
char *cu_dynamic_shared;
}

namespace {
enum { MOST_THREADS = 1024, STACK = 256 * 1024, GUARD = 256, GUARD_BYTE = 0xa5 };
enum State { NEW, READY, AT_BLOCK, AT_WARP, DONE };
struct Thread {
    State state;
    int place;      // where it waits: line and a counter
    unsigned mask;  // of the warp's lanes it waits for
    uint3 index;
    void *resume;   // its stack pointer while it waits
    int stack;
};

Thread threads[MOST_THREADS];
int order[MOST_THREADS], free_stacks[MOST_THREADS];
char *stacks[MOST_THREADS];
unsigned long long slots[MOST_THREADS];
int thread_count, current, next_new, free_count, stack_count, failed;
void *scheduler;
char message[512];
const CuKernel *kernel;
char *arguments;

// --- switching stacks --------------------------------------------------------------------------------------
extern "C" void cu_switch(void **save, void *to);
#if defined(__x86_64__)
asm(R"(
    .text
    .globl cu_switch
cu_switch:
    pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
    ret
)");
void *fresh(char *top, void (*entry)()) {
    void **at = (void **)((cu_address)top & ~(cu_address)15) - 1;  // a function is entered with the stack off by 8
    *at = 0;
    *--at = (void *)entry;
    for (int i = 0; i < 6; i++) *--at = 0;
    return at;
}
#elif defined(__aarch64__)
asm(R"(
    .text
    .globl cu_switch
cu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
)");
void *fresh(char *top, void (*entry)()) {
    void **at = (void **)((cu_address)top & ~(cu_address)15) - 20;
    memset(at, 0, 160);
    at[11] = (void *)entry;  // x30
    return at;
}
#else
#error "the emulator switches stacks on x86-64 and aarch64 only"
#endif

int take_stack() {
    if (free_count) return free_stacks[--free_count];
    char *memory = (char *)mmap(0, STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    mprotect(memory, 4096, PROT_NONE);
    stacks[stack_count] = memory + 4096 + STACK;
    return stack_count++;
}

void fail(const char *format, ...) {
    if (failed) return;
    failed = 1;
    va_list list;
    va_start(list, format);
    int used = vsnprintf(message, sizeof message, format, list);
    va_end(list);
    if (used >= 0 && used < (int)sizeof message)
        snprintf(message + used, sizeof message - used, " (block %u,%u,%u)", cu_block_index.x, cu_block_index.y, cu_block_index.z);
}

// --- threads ----------------------------------------------------------------------------------------------
void work() {
    int stack = threads[current].stack;
    while (next_new < thread_count && !failed) {
        current = order[next_new++];
        Thread &thread = threads[current];
        thread.stack = stack;
        cu_thread_index = thread.index;
        kernel->call(arguments);
        threads[current].state = DONE;
    }
    void *nobody;
    free_stacks[free_count++] = stack;
    cu_switch(&nobody, scheduler);
}

void start() {
    int stack = take_stack();
    void *to = fresh(stacks[stack], work);
    current = order[next_new];
    threads[current].stack = stack;
    cu_switch(&scheduler, to);
}

void wait(State state, int place, unsigned mask) {
    Thread &thread = threads[current];
    thread.state = state;
    thread.place = place;
    thread.mask = mask;
    cu_switch(&thread.resume, scheduler);
}

void resume(int t) {
    current = t;
    cu_thread_index = threads[t].index;
    threads[t].state = READY;
    cu_switch(&scheduler, threads[t].resume);
}

// Frees the threads of [first, last) that `mask` names once all of them that still run wait for the same; 1 if it did.
int release(int first, int last, State state, unsigned mask) {
    int place = 0, waiting = 0;
    for (int t = first; t < last; t++) {
        Thread &thread = threads[t];
        if (thread.state == DONE || !(mask >> (t & 31) & 1)) continue;
        if (thread.state != state || thread.mask != mask) return 0;
        if (!waiting++) place = thread.place;
        else if (thread.place != place)
            fail("threads of one %s wait at different barriers, lines %d and %d", state == AT_BLOCK ? "block" : "warp",
                 place / 4096, thread.place / 4096);
    }
    if (waiting)
        for (int t = first; t < last; t++)
            if (threads[t].state == state && (mask >> (t & 31) & 1)) threads[t].state = READY;
    return waiting > 0;
}

void run_block() {
    for (int t = 0; t < thread_count; t++) threads[t].state = NEW;
    next_new = 0;
    while (!failed) {
        int progress = 0, alive = 0;
        while (next_new < thread_count && !failed) start(), progress = 1;
        for (int i = 0; i < thread_count && !failed; i++) {
            int t = order[i];
            if (threads[t].state == READY) resume(t), progress = 1;
            alive += threads[t].state != DONE;
        }
        if (!alive || failed) return;
        for (int t = 0; t < thread_count; t++)
            if (threads[t].state == AT_WARP) {
                int warp = t & ~31;
                progress |= release(warp, warp + 32 < thread_count ? warp + 32 : thread_count, AT_WARP, threads[t].mask);
            }
        progress |= release(0, thread_count, AT_BLOCK, 0xffffffffu);
        if (!progress) {
            int t = 0;
            while (threads[t].state == DONE) t++;
            fail("deadlock: thread %d waits in line %d for threads that never come", t, threads[t].place / 4096);
        }
    }
}

unsigned shuffled(unsigned *seed, unsigned below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % below;
}
}  // namespace

// --- what kernels call -----------------------------------------------------------------------------------------
extern "C" {
void cu_fault(const char *text, int line) {
    if (line) fail("%s, line %d, thread %d", text, line, current);
    else fail("%s, thread %d", text, current);
    void *nobody;
    cu_switch(&nobody, scheduler);
    abort();  // nobody resumes it
}

int cu_lane() { return current % 32; }

void cu_wait_block(int place) { wait(AT_BLOCK, place, 0xffffffffu); }

int cu_count_block(int predicate, int place) {
    slots[current] = predicate;
    wait(AT_BLOCK, place, 0xffffffffu);
    int count = 0;
    for (int t = 0; t < thread_count; t++) count += threads[t].state != DONE && slots[t];
    wait(AT_BLOCK, place, 0xffffffffu);
    return count;
}

void cu_wait_warp(unsigned mask, int place) {
    if (!(mask >> current % 32 & 1)) cu_fault("a thread is not in the mask it gives", place / 4096);
    wait(AT_WARP, place, mask);
}

void cu_exchange(unsigned mask, void *value, size_t size, int source, int place) {
    memcpy(&slots[current], value, size);
    cu_wait_warp(mask, place);
    int from = current / 32 * 32 + source;
    if (!(mask >> source & 1) || from >= thread_count || threads[from].state == DONE)
        memset(value, 0xff, size);  // a lane outside the mask, or that has ended: undefined on a GPU
    else
        memcpy(value, &slots[from], size);
    cu_wait_warp(mask, place);
}

unsigned cu_ballot(unsigned mask, int predicate, int place) {
    slots[current] = predicate;
    cu_wait_warp(mask, place);
    int first = current / 32 * 32;
    unsigned result = 0;
    for (int lane = 0; lane < 32 && first + lane < thread_count; lane++)
        if (mask >> lane & 1 && threads[first + lane].state != DONE && slots[first + lane]) result |= 1u << lane;
    cu_wait_warp(mask, place);
    return result;
}

// --- accesses that the compiler reports: text compiled with `checked` ------------------------------------------------
}  // extern "C"
namespace {
struct Range { cu_address begin, end; };
const Range *allocations;  // sorted; alive
int allocation_count;
unsigned shared_size;
Range last;                // where the access before was
cu_address last_page;      // of a library's variables
enum { PAGE = 4096 };

int within(cu_address at, unsigned size, cu_address begin, cu_address end) {
    return begin <= at && at + size <= end;
}

int find(cu_address at, unsigned size) {
    int low = 0, high = allocation_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (allocations[middle].begin <= at) low = middle + 1;
        else high = middle;
    }
    if (!low || !within(at, size, allocations[low - 1].begin, allocations[low - 1].end)) return 0;
    last = allocations[low - 1];
    return 1;
}

void accessed(cu_address at, unsigned size, const char *how) {
    if (within(at, size, last.begin, last.end)) return;
    cu_address top = (cu_address)stacks[threads[current].stack];
    if (within(at, size, top - STACK, top) || find(at, size)) return;
    if (within(at, size, (cu_address)cu_dynamic_shared, (cu_address)cu_dynamic_shared + shared_size)) return;
    if (within(at, size, (cu_address)arguments, (cu_address)arguments + kernel->total)) return;
    if (at / PAGE == last_page) return;
    Dl_info found;
    if (dladdr((void *)at, &found)) {  // static shared memory, tables of constants
        last_page = at / PAGE;
        return;
    }
    char text[200];
    int place = allocation_count;
    while (place && allocations[place - 1].begin > at) place--;
    long long behind = place ? (long long)(at - allocations[place - 1].end) : -1;
    long long size_of = place ? (long long)(allocations[place - 1].end - allocations[place - 1].begin) : 0;
    if (behind >= 0 && behind < PAGE)
        snprintf(text, sizeof text, "a %s of %u bytes, %lld bytes behind the end of an allocation of %lld", how, size, behind, size_of);
    else
        snprintf(text, sizeof text, "a %s of %u bytes at %p, which is no memory of a device", how, size, (void *)at);
    cu_fault(text, 0);
}

struct Location { const char *file; unsigned line, column; };
struct Mismatch { Location where; const void *type; unsigned char log_alignment, kind; };
void undefined(const char *what, const void *data) { cu_fault(what, (int)((const Location *)data)->line); }
}  // namespace
extern "C" {
#define CU_ACCESS(size)                                                                                    \
    void __asan_load##size##_noabort(cu_address at) { accessed(at, size, "read"); }                        \
    void __asan_store##size##_noabort(cu_address at) { accessed(at, size, "write"); }
CU_ACCESS(1) CU_ACCESS(2) CU_ACCESS(4) CU_ACCESS(8) CU_ACCESS(16)
void __asan_loadN_noabort(cu_address at, size_t size) { accessed(at, (unsigned)size, "read"); }
void __asan_storeN_noabort(cu_address at, size_t size) { accessed(at, (unsigned)size, "write"); }
void __asan_handle_no_return() {}
#define CU_UNDEFINED(name, text) void __ubsan_handle_##name(const void *data) { undefined(text, data); }
CU_UNDEFINED(add_overflow, "an overflow of a sum")
CU_UNDEFINED(sub_overflow, "an overflow of a difference")
CU_UNDEFINED(mul_overflow, "an overflow of a product")
CU_UNDEFINED(negate_overflow, "an overflow of a negation")
CU_UNDEFINED(divrem_overflow, "a division by zero, or that overflows")
CU_UNDEFINED(shift_out_of_bounds, "a shift by more bits than there are")
CU_UNDEFINED(out_of_bounds, "an index beyond an array")
CU_UNDEFINED(load_invalid_value, "a bool that is neither 0 nor 1")
void __ubsan_handle_type_mismatch_v1(const Mismatch *data, cu_address at) {
    if (at & (((cu_address)1 << data->log_alignment) - 1)) undefined("a misaligned access", data);
}

// The memory that kernels may use from here on; it has to live as long.
void cu_allocations(const void *ranges, int count) {
    allocations = (const Range *)ranges;
    allocation_count = count;
    last = {0, 0};
}

// --- what the host calls -----------------------------------------------------------------------------------------
const char *cu_message() { return message; }

// thread_order: 0 forward, 1 reverse, 2 random by the seed; shuffle: blocks at random, too.
int cu_launch(const CuKernel *what, const unsigned *grid, const unsigned *block, unsigned shared, char *packed,
              int thread_order, int shuffle, unsigned seed) {
    kernel = what;
    arguments = packed;
    failed = 0;
    cu_grid_size = {grid[0], grid[1], grid[2]};
    cu_block_size = {block[0], block[1], block[2]};
    thread_count = block[0] * block[1] * block[2];
    for (int t = 0; t < thread_count; t++) {
        threads[t].index = {t % block[0], t / block[0] % block[1], t / (block[0] * block[1])};
        order[t] = thread_order == 1 ? thread_count - 1 - t : t;
    }
    char *dynamic = (char *)aligned_alloc(256, (shared + 2 * GUARD + 255) / 256 * 256);
    memset(dynamic + shared, GUARD_BYTE, GUARD);
    cu_dynamic_shared = dynamic;
    shared_size = shared;
    last = {0, 0};
    unsigned blocks = grid[0] * grid[1] * grid[2], *places = 0;
    if (shuffle) {
        places = (unsigned *)malloc(blocks * sizeof *places);
        for (unsigned i = 0; i < blocks; i++) {
            unsigned j = shuffled(&seed, i + 1);
            places[i] = places[j];
            places[j] = i;
        }
    }
    for (unsigned i = 0; i < blocks && !failed; i++) {
        unsigned b = places ? places[i] : thread_order == 1 ? blocks - 1 - i : i;
        cu_block_index = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
        if (thread_order == 2)
            for (int t = thread_count - 1; t > 0; t--) {
                int j = shuffled(&seed, t + 1), k = order[t];
                order[t] = order[j];
                order[j] = k;
            }
        memset(dynamic, 0xff, shared);  // NaN in every float type
        memset(what->shared, 0xff, what->shared_end - what->shared);
        run_block();
    }
    for (int i = 0; i < GUARD; i++)
        if ((unsigned char)dynamic[shared + i] != GUARD_BYTE) {
            fail("a write outside of dynamic shared memory, %d bytes behind its end", i);
            break;
        }
    if (failed) free_count = 0, stack_count = 0;  // stacks of threads that wait forever; mapped anew
    free(dynamic);
    free(places);
    return failed;
}
}

// --- capsules of DLPack that nobody consumed -------------------------------------------------------------------------
// Not in Python, which cannot run where the consumer's error is on its way already.
extern "C" {
struct Managed { char tensor[48]; void *context; void (*deleter)(Managed *); };
int PyCapsule_IsValid(void *capsule, const char *name);
void *PyCapsule_GetPointer(void *capsule, const char *name);
void PyErr_Fetch(void **type, void **value, void **traceback);
void PyErr_Restore(void *type, void *value, void *traceback);

void cu_capsule_gone(void *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;
    void *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Managed *managed = (Managed *)PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
    PyErr_Restore(type, value, traceback);
}
}
