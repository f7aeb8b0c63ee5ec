#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define MAKAR_FIBER_ASAN 1
#endif
#endif

// Saves the registers that a call preserves and the stack pointer, and continues on another stack.
extern "C" void makar_switch_stack(void** save, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.globl makar_switch_stack
.type makar_switch_stack, @function
makar_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size makar_switch_stack, .-makar_switch_stack
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl makar_switch_stack
.type makar_switch_stack, %function
makar_switch_stack:
  sub sp, sp, #176
  stp x19, x20, [sp]
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
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #176
  ret
.size makar_switch_stack, .-makar_switch_stack
)");
#endif

namespace makar::simulated_gpu {
namespace {

constexpr size_t kStackBytes = 256 << 10, kGuardBytes = 64 << 10;  // only touched pages take memory
Fiber* entering = nullptr;                                         // the fiber that starts

}  // namespace

Fiber::~Fiber() {
  if (stack_) munmap(static_cast<std::byte*>(stack_) - kGuardBytes, kGuardBytes + kStackBytes);
}

void Fiber::start(void (*body)(void*), void* argument) {
  if (!stack_) {
    void* all = mmap(nullptr, kGuardBytes + kStackBytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    stack_ = static_cast<std::byte*>(all) + kGuardBytes;  // an overflow ends the program
    if (mprotect(stack_, kStackBytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  body_ = body, argument_ = argument, own_fake_ = nullptr;
  void (*const first)() = [] { enter(entering); };
  auto* top = static_cast<uint64_t*>(stack_) + kStackBytes / sizeof(uint64_t);
#if defined(__x86_64__)
  top -= 8;  // a multiple of 16, so that the stack pointer is 16 k + 8 at the first instruction of a function
  for (int i = 0; i < 6; ++i) top[i] = 0;
  top[6] = reinterpret_cast<uint64_t>(first);
#else
  top -= 22;
  for (int i = 0; i < 22; ++i) top[i] = 0;
  top[11] = reinterpret_cast<uint64_t>(first);  // x30
#endif
  own_ = top;
}

void Fiber::enter(Fiber* self) {
#if MAKAR_FIBER_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_bottom_, &self->caller_size_);
#endif
  self->body_(self->argument_);
  std::abort();  // the body has returned
}

void Fiber::resume() {
  entering = this;
#if MAKAR_FIBER_ASAN
  __sanitizer_start_switch_fiber(&caller_fake_, stack_, kStackBytes);
#endif
  makar_switch_stack(&caller_, own_);
#if MAKAR_FIBER_ASAN
  __sanitizer_finish_switch_fiber(caller_fake_, nullptr, nullptr);
#endif
}

void Fiber::pause([[maybe_unused]] bool last) {
#if MAKAR_FIBER_ASAN
  __sanitizer_start_switch_fiber(last ? nullptr : &own_fake_, caller_bottom_, caller_size_);
#endif
  makar_switch_stack(&own_, caller_);
#if MAKAR_FIBER_ASAN
  __sanitizer_finish_switch_fiber(own_fake_, &caller_bottom_, &caller_size_);
#endif
}

}  // namespace makar::simulated_gpu
