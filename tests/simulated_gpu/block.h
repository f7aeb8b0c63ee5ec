// The threads of one block, as fibers of one host thread. A thread runs until it waits; then the next one
// runs.
//
// Work that a GPU does in the background is done as late as its instructions allow (or at once,
// Settings::late), so a missing wait shows in the results. A thread that waits for ever ends the launch with
// an error that says who waits for what.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fiber.h"

namespace makar::simulated_gpu {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// A kernel does what no GPU allows, or waits for ever.
struct KernelFault : std::logic_error {
  using std::logic_error::logic_error;
};

// From MAKAR_SIMULATED_GPU, a list of words: `late` (the default) or `early`: background work at once;
// `reverse`: the last threads and blocks first.
struct Settings {
  bool late = true, reverse = false;
};
Settings& settings();

constexpr unsigned kWarpLanes = 32, kMaxThreads = 1024, kWarpgroup = 128;
constexpr size_t kMaxShared = 227 * 1024;
// Dynamic shared memory begins at a multiple of 128 that is not one of 256, since kernels may rely on no more
// than 128.
constexpr size_t kSharedOffset = 128;
// The address of Block::shared_, a multiple of 2^18, because descriptors have 18 bits.
constexpr uint32_t kFirstAddress = 0x40000000;

// Threads of a warp exchange values: the value of each can be read by all of them once all have arrived.
// Stricter than CUDA, a mask may not name a lane that has ended.
struct WarpExchange {
  static constexpr size_t kBytes = 64;
  const char* what = "";  // the instruction
  unsigned arrived = 0, generation = 0;
  alignas(16) std::byte values[2][kWarpLanes][kBytes];  // by the parity of the generation
  alignas(16) std::byte results[2][kWarpLanes][kBytes];
};

// Four warps do the same matrix product: none goes on before all have read the operands.
struct WarpgroupBarrier {
  unsigned arrived = 0, generation = 0;
};

struct ThreadBarrier {
  unsigned arrived = 0, generation = 0, expected = 0;  // expected 0: all threads that have not ended
  bool any[2] = {};                                    // by the parity of the generation
};

// A barrier in shared memory (mbarrier), in its eight bytes.
struct PhaseBarrier {
  int32_t bytes;  // still to be copied
  uint16_t pending;
  uint16_t expected : 15, parity : 1;
};
static_assert(sizeof(PhaseBarrier) == 8);

// A copy of 16 bytes to shared memory; zeros, if from is null.
struct Copy16 {
  std::byte* to;
  const std::byte* from;
};
// A thread's part of a wgmma instruction.
struct GroupProduct {
  float* d;
  uint64_t a, b;
  int columns;
};

// Work that a thread has started, in groups: finish() does that of all groups but the newest `pending` ones.
template <class Work>
struct Groups {
  std::vector<Work> work;
  std::vector<size_t> ends;  // of the closed groups
  void clear() { work.clear(), ends.clear(); }
  void close() { ends.push_back(work.size()); }
  template <class Do>
  void finish(size_t pending, Do&& run) {
    if (ends.size() <= pending) return;
    const size_t groups = ends.size() - pending, end = ends[groups - 1];
    for (size_t i = 0; i < end; ++i) run(work[i]);
    work.erase(work.begin(), work.begin() + static_cast<std::ptrdiff_t>(end));
    ends.erase(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(groups));
    for (size_t& e : ends) e -= end;
  }
};

struct Thread {
  enum class State { kRunning, kWarp, kWarpgroupBarrier, kBarrier, kPhase, kPreviousKernel, kEnded };
  Fiber fiber;
  Index index;
  State state = State::kRunning;
  const void* waits_for = nullptr;
  unsigned generation = 0;  // of what it waits for; of a phase: the parity

  // Work in the background, in the order of its groups.
  Groups<Copy16> copies;
  Groups<GroupProduct> products;
};

class Block {
 public:
  static Block& current();  // whose threads run

  // Runs `kernel` once per thread. `previous`, if it is not empty, is the kernel before this one: it runs
  // when no thread can go on without it, and is empty then.
  void run(Index threads, size_t shared_bytes, const std::function<void()>& kernel,
           std::function<void()>& previous);

  Thread& thread() { return *running_; }
  unsigned lane() const { return static_cast<unsigned>(running_ - threads_.data()) % kWarpLanes; }
  unsigned warp() const { return static_cast<unsigned>(running_ - threads_.data()) / kWarpLanes; }

  // All lanes of `mask` call this for the same instruction `what`, each with a value of `bytes` bytes;
  // compute(exchange, parity) runs once, when all values are there.
  template <class Compute>
  const WarpExchange& exchange(const char* what, unsigned mask, const void* value, size_t bytes,
                               unsigned& parity, Compute&& compute) {
    WarpExchange& x = exchange_of(mask);
    if (x.arrived == 0) x.what = what;
    if (x.what != what) fault(std::string(what) + " in one lane, " + x.what + " in another of the same warp");
    const unsigned generation = x.generation;
    parity = generation & 1;
    std::memcpy(x.values[parity][lane()], value, bytes);
    x.arrived |= 1u << lane();
    if (x.arrived == mask) {
      compute(x, parity);
      x.arrived = 0, ++x.generation;
    } else {
      wait_as(Thread::State::kWarp, &x, generation);
    }
    return x;
  }
  const WarpExchange& exchange(const char* what, unsigned mask, const void* value, size_t bytes,
                               unsigned& parity) {
    return exchange(what, mask, value, bytes, parity, [](WarpExchange&, unsigned) {});
  }
  void sync_warpgroup();
  // Returns whether `value` is true in any thread.
  bool sync(unsigned barrier, unsigned count, bool value);

  std::byte* shared_memory() { return shared_ + kSharedOffset; }
  std::byte* at(uint32_t address, size_t bytes);
  // Of an address of which only the last 18 bits are known, as in descriptors.
  static uint32_t whole_address(uint32_t last_bits) { return kFirstAddress + last_bits; }
  uint32_t address_of(const void* p) const;

  void init(uint32_t barrier, unsigned arrivals);
  void arrive(uint32_t barrier, int32_t more_bytes);
  void copied(uint32_t barrier, int32_t bytes);
  void wait(uint32_t barrier, unsigned parity);
  void wait_for_previous_kernel();
  void run_previous_kernel();
  // The copy engine's work, at some time before the threads that wait for it go on.
  void in_background(std::function<void()> work);

  [[noreturn]] void fault(const std::string& what);

 private:
  WarpExchange& exchange_of(unsigned mask);
  bool ready(const Thread& t) const;
  void wait_as(Thread::State state, const void* what, unsigned generation);
  void thread_ended();
  void complete(ThreadBarrier& b);
  PhaseBarrier& phase_barrier(uint32_t address);
  void end_phase(PhaseBarrier& b);
  std::string waiting() const;

  alignas(1024) std::byte shared_[kSharedOffset + kMaxShared];
  size_t shared_bytes_ = 0;
  std::vector<Thread> threads_ = std::vector<Thread>(kMaxThreads);
  unsigned count_ = 0, live_ = 0;
  Thread* running_ = nullptr;
  const std::function<void()>* kernel_ = nullptr;
  std::function<void()>* previous_ = nullptr;
  WarpExchange whole_[kMaxThreads / kWarpLanes];  // of all lanes of a warp
  std::map<unsigned, std::unique_ptr<WarpExchange>>
      exchanges_[kMaxThreads / kWarpLanes];  // of some lanes, by mask
  WarpgroupBarrier warpgroups_[kMaxThreads / kWarpgroup];
  std::map<unsigned, ThreadBarrier> barriers_;
  std::map<uint32_t, bool> phase_barriers_;  // initialised ones
  std::vector<std::function<void()>> background_;
  std::string fault_;
};

// Runs all blocks of a grid, one after the other; the kernel before it when the first block waits for it.
void run_grid(Index grid, Index threads, size_t shared_bytes, const std::function<void()>& kernel,
              std::function<void()> previous);

}  // namespace makar::simulated_gpu
