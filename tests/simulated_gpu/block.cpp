#include "block.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "cuda_runtime.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define MAKAR_POISON(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define MAKAR_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#endif
#endif
#ifndef MAKAR_POISON
#define MAKAR_POISON(p, n) (void)0
#define MAKAR_UNPOISON(p, n) (void)0
#endif

makar::simulated_gpu::Index threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace makar::simulated_gpu {
namespace {

Block blocks[2];  // that of a kernel which has started before the previous one has ended, and that of the
                  // previous one
int overlap = 0;  // which of them runs

}  // namespace

Settings& settings() {
  static Settings made = [] {
    Settings s;
    const char* words = std::getenv("MAKAR_SIMULATED_GPU");
    if (words && std::strstr(words, "early")) s.late = false;
    if (words && std::strstr(words, "reverse")) s.reverse = true;
    return s;
  }();
  return made;
}

Block& Block::current() { return blocks[overlap]; }

void Block::run(Index threads, size_t shared_bytes, const std::function<void()>& kernel,
                std::function<void()>& previous) {
  count_ = live_ = threads.x * threads.y * threads.z;
  kernel_ = &kernel, previous_ = &previous, shared_bytes_ = shared_bytes;
  MAKAR_UNPOISON(shared_memory(), kMaxShared);
  std::memset(shared_memory(), 0xFF, shared_bytes);
  MAKAR_POISON(shared_memory() + shared_bytes, kMaxShared - shared_bytes);
  for (auto& of_warp : exchanges_)
    for (auto& [mask, exchange] : of_warp) exchange->arrived = 0;
  for (WarpExchange& exchange : whole_) exchange.arrived = 0;
  for (WarpgroupBarrier& barrier : warpgroups_) barrier.arrived = 0;
  barriers_.clear(), phase_barriers_.clear(), background_.clear(), fault_.clear();
  for (unsigned i = 0; i < count_; ++i) {
    Thread& t = threads_[i];
    t.index = {i % threads.x, i / threads.x % threads.y, i / threads.x / threads.y};
    t.state = Thread::State::kRunning;
    t.copies.clear(), t.products.clear();
    t.fiber.start(
        [](void* block) {
          auto& b = *static_cast<Block*>(block);
          (*b.kernel_)();
          b.thread_ended();
        },
        this);
  }
  const unsigned warps = (count_ + kWarpLanes - 1) / kWarpLanes;
  while (live_ > 0) {
    bool progress = false;
    for (unsigned i = 0; i < warps; ++i) {
      const unsigned first = (settings().reverse ? warps - 1 - i : i) * kWarpLanes,
                     last = std::min(first + kWarpLanes, count_);
      for (bool moved = true; moved;) {
        moved = false;
        for (unsigned j = first; j < last; ++j) {
          Thread& t = threads_[settings().reverse ? first + last - 1 - j : j];
          if (!ready(t)) continue;
          running_ = &t, threadIdx = t.index, t.state = Thread::State::kRunning;
          t.fiber.resume();
          running_ = nullptr;
          if (!fault_.empty()) {
            MAKAR_UNPOISON(shared_memory(), kMaxShared);
            throw KernelFault(fault_);
          }
          moved = progress = true;
        }
      }
    }
    if (progress || live_ == 0) continue;
    if (*previous_) {
      run_previous_kernel();
      continue;
    }
    if (background_.empty()) throw KernelFault("the threads of a block wait for ever: " + waiting());
    const auto work = std::move(background_.front());
    background_.erase(background_.begin());
    work();
  }
  MAKAR_UNPOISON(shared_memory(), kMaxShared);
}

// The variables of the threads belong to both kernels.
void Block::run_previous_kernel() {
  const Index block = blockIdx;
  const dim3 grid = gridDim, threads = blockDim;
  const auto previous = std::exchange(*previous_, nullptr);
  ++overlap;
  try {
    previous();
  } catch (...) {
    --overlap;
    throw;
  }
  --overlap;
  blockIdx = block, gridDim = grid, blockDim = threads;
}

bool Block::ready(const Thread& t) const {
  switch (t.state) {
    case Thread::State::kRunning:
      return true;
    case Thread::State::kWarp:
      return static_cast<const WarpExchange*>(t.waits_for)->generation != t.generation;
    case Thread::State::kWarpgroupBarrier:
      return static_cast<const WarpgroupBarrier*>(t.waits_for)->generation != t.generation;
    case Thread::State::kBarrier:
      return static_cast<const ThreadBarrier*>(t.waits_for)->generation != t.generation;
    case Thread::State::kPhase:
      return static_cast<const PhaseBarrier*>(t.waits_for)->parity != t.generation;
    case Thread::State::kPreviousKernel:
      return !*previous_;
    case Thread::State::kEnded:
      return false;
  }
  return false;
}

std::string Block::waiting() const {
  static constexpr const char* kNames[] = {"running",
                                           "the other lanes of its warp",
                                           "the other warps of its warpgroup",
                                           "a barrier of threads",
                                           "a barrier in shared memory",
                                           "the previous kernel",
                                           "ended"};
  std::string out = "block " + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
                    std::to_string(blockIdx.z);
  for (unsigned first = 0; first < count_;) {
    unsigned last = first;
    while (last + 1 < count_ && threads_[last + 1].state == threads_[first].state) ++last;
    const auto state = threads_[first].state;
    out += "; threads " + std::to_string(first) + " to " + std::to_string(last) +
           (state == Thread::State::kEnded ? " have ended"
                                           : std::string(" wait for ") + kNames[static_cast<int>(state)]);
    if (state == Thread::State::kPhase)
      out +=
          " at byte " +
          std::to_string(static_cast<const std::byte*>(threads_[first].waits_for) - shared_ - kSharedOffset) +
          ", phase " + std::to_string(threads_[first].generation);
    first = last + 1;
  }
  return out;
}

void Block::wait_as(Thread::State state, const void* what, unsigned generation) {
  Thread& t = *running_;
  t.state = state, t.waits_for = what, t.generation = generation;
  if (ready(t))
    t.state = Thread::State::kRunning;
  else
    t.fiber.pause();
}

void Block::thread_ended() {
  Thread& t = *running_;
  t.state = Thread::State::kEnded;
  --live_;
  for (auto& [id, barrier] : barriers_)
    if (barrier.expected == 0 && barrier.arrived > 0 && barrier.arrived >= live_) complete(barrier);
  t.fiber.pause(true);
}

void Block::fault(const std::string& what) {
  if (!running_) throw KernelFault(what);  // in the background
  fault_ = "thread " + std::to_string(running_ - threads_.data()) + " of block " +
           std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) + ", " +
           std::to_string(blockIdx.z) + ": " + what;
  running_->fiber.pause();
  std::abort();  // never resumed
}

WarpExchange& Block::exchange_of(unsigned mask) {
  if (!(mask >> lane() & 1)) fault("the mask of a warp instruction lacks the thread itself");
  if (mask == 0xFFFFFFFFu) return whole_[warp()];
  auto& slot = exchanges_[warp()][mask];
  if (!slot) slot = std::make_unique<WarpExchange>();
  return *slot;
}

void Block::sync_warpgroup() {
  WarpgroupBarrier& b = warpgroups_[warp() / (kWarpgroup / kWarpLanes)];
  const unsigned generation = b.generation;
  if (++b.arrived == kWarpgroup) b.arrived = 0, ++b.generation;
  wait_as(Thread::State::kWarpgroupBarrier, &b, generation);
}

void Block::complete(ThreadBarrier& b) { b.arrived = 0, ++b.generation, b.any[b.generation & 1] = false; }

bool Block::sync(unsigned barrier, unsigned count, bool value) {
  ThreadBarrier& b = barriers_[barrier];
  if (b.arrived > 0 && b.expected != count) fault("a barrier of threads with two counts");
  b.expected = count;
  const unsigned generation = b.generation;
  b.any[generation & 1] |= value;
  if (++b.arrived >= (count ? count : live_)) complete(b);
  wait_as(Thread::State::kBarrier, &b, generation);
  return b.any[generation & 1];
}

// Other addresses are those of static shared memory.
std::byte* Block::at(uint32_t address, size_t bytes) {
  std::byte* p = shared_ + static_cast<int32_t>(address - kFirstAddress);
  const bool inside = p >= shared_memory() && p + bytes <= shared_memory() + shared_bytes_;
  const auto* begin = reinterpret_cast<const std::byte*>(blocks);
  if (!inside && p >= begin && p < begin + sizeof blocks)
    fault("address " + std::to_string(p - shared_memory()) + " of shared memory, of which there are " +
          std::to_string(shared_bytes_) + " bytes");
  if (reinterpret_cast<uintptr_t>(p) % bytes != 0)
    fault("an address in shared memory is not a multiple of " + std::to_string(bytes));
  return p;
}
uint32_t Block::address_of(const void* p) const {
  return kFirstAddress + static_cast<uint32_t>(static_cast<const std::byte*>(p) - shared_);
}

PhaseBarrier& Block::phase_barrier(uint32_t address) {
  if (!phase_barriers_.contains(address))
    fault("a barrier in shared memory is used before it is initialised");
  return *reinterpret_cast<PhaseBarrier*>(at(address, 8));
}
void Block::init(uint32_t barrier, unsigned arrivals) {
  phase_barriers_[barrier] = true;
  *reinterpret_cast<PhaseBarrier*>(at(barrier, 8)) = {0, static_cast<uint16_t>(arrivals),
                                                      static_cast<uint16_t>(arrivals), 0};
}
void Block::end_phase(PhaseBarrier& b) {
  if (b.pending == 0 && b.bytes == 0) b.parity ^= 1, b.pending = b.expected;
}
void Block::arrive(uint32_t barrier, int32_t more_bytes) {
  PhaseBarrier& b = phase_barrier(barrier);
  if (b.pending == 0) fault("more threads arrive at a barrier in shared memory than it expects");
  b.bytes += more_bytes, --b.pending;
  end_phase(b);
}
void Block::copied(uint32_t barrier, int32_t bytes) {
  PhaseBarrier& b = phase_barrier(barrier);
  b.bytes -= bytes;
  end_phase(b);
}
void Block::wait(uint32_t barrier, unsigned parity) {
  wait_as(Thread::State::kPhase, &phase_barrier(barrier), parity);
}

void Block::wait_for_previous_kernel() { wait_as(Thread::State::kPreviousKernel, nullptr, 0); }

void Block::in_background(std::function<void()> work) {
  if (settings().late)
    background_.push_back(std::move(work));
  else
    work();
}

void run_grid(Index grid, Index threads, size_t shared_bytes, const std::function<void()>& kernel,
              std::function<void()> previous) {
  gridDim = {grid.x, grid.y, grid.z}, blockDim = {threads.x, threads.y, threads.z};
  const uint64_t count = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t b = settings().reverse ? count - 1 - i : i;
    blockIdx = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                static_cast<unsigned>(b / grid.x / grid.y)};
    Block::current().run(threads, shared_bytes, kernel, previous);
    if (previous) Block::current().run_previous_kernel();  // the first block did not wait
  }
}

}  // namespace makar::simulated_gpu
