#include "kernels/fence_device.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "base/failure.h"

namespace makar {
namespace {

// Reserved address space; pages are committed on first touch.
constexpr size_t kArenaBytes = size_t{64} << 30;
constexpr size_t kMinBlockBytes = 64;

// The size of a block: a power of two, so that all free blocks of a size class are interchangeable.
size_t size_class(size_t bytes) { return std::bit_ceil(std::max(bytes, kMinBlockBytes)); }

// Makes the memory accessible for one kernel or copy.
class OpenScope {
 public:
  explicit OpenScope(FenceMemory& memory) : memory_(memory) { memory_.open(); }
  ~OpenScope() { memory_.close(); }
  OpenScope(const OpenScope&) = delete;
  OpenScope& operator=(const OpenScope&) = delete;

 private:
  FenceMemory& memory_;
};

// The number in an environment variable, or a default.
uint64_t environment_number(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : fallback;
}

}  // namespace

FenceMemory::FenceMemory()
    : Memory(false),
      limit_(std::min<size_t>(environment_number("MAKAR_FENCE_MB", kArenaBytes >> 20) << 20, kArenaBytes)) {
  void* base = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw OutOfMemory("the fence device could not reserve 64 GB of address space");
  base_ = static_cast<std::byte*>(base);
}

FenceMemory::~FenceMemory() { munmap(base_, kArenaBytes); }

void FenceMemory::protect(size_t begin, size_t end, int rights) {
  if (begin < end) check(mprotect(base_ + begin, end - begin, rights) == 0, "mprotect of the fence arena");
}

void FenceMemory::open() {
  if (depth_++ == 0) protect(0, top_, PROT_READ | PROT_WRITE);
}

void FenceMemory::close() {
  if (--depth_ == 0) protect(0, top_, PROT_NONE);
}

// Allocates new blocks from whole pages, so that small blocks share a page.
std::byte* FenceMemory::allocate(size_t bytes) {
  const size_t size = size_class(bytes), page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::byte*>& blocks = free_[size];
  if (blocks.empty()) {
    const size_t extent = std::max(size, page);
    if (extent > limit_ - top_)
      throw OutOfMemory(
          fmt::format("the fence device is out of memory: {} MB were requested, {} of {} MB are free",
                      extent >> 20, (limit_ - top_) >> 20, limit_ >> 20));
    for (size_t at = 0; at < extent; at += size) blocks.push_back(base_ + top_ + at);
    std::reverse(blocks.begin(), blocks.end());
    if (depth_ > 0) protect(top_, top_ + extent, PROT_READ | PROT_WRITE);
    top_ += extent;
  }
  std::byte* block = blocks.back();
  blocks.pop_back();
  ++live_;
  // Fill with NaN: reading uninitialised memory shows in the results.
  const OpenScope open_scope(*this);
  std::memset(block, 0xFF, bytes);
  return block;
}

// Without live blocks, the arena restarts at its first page, so that open() and close() protect little
// memory.
void FenceMemory::deallocate(std::byte* block, size_t bytes) {
  free_[size_class(bytes)].push_back(block);
  if (--live_ > 0) return;
  free_.clear();
  madvise(base_, top_, MADV_DONTNEED);
  top_ = 0;
}

void FenceMemory::copy_in(std::byte* to, const std::byte* host, size_t bytes) { copy(to, host, bytes); }
void FenceMemory::copy_out(std::byte* host, const std::byte* from, size_t bytes) { copy(host, from, bytes); }

void FenceMemory::copy(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes == 0) return;
  const OpenScope open_scope(*this);
  std::memcpy(to, from, bytes);
}

void FenceMemory::zero(std::byte* block, size_t bytes) {
  if (bytes == 0) return;
  const OpenScope open_scope(*this);
  std::memset(block, 0, bytes);
}

std::shared_ptr<const kernels::PackedWeight> FenceDevice::pack(const kernels::Operand& b, int64_t n,
                                                               int64_t k) {
  const OpenScope open_scope(memory_);
  return CpuDevice::pack(b, n, k);
}

FenceDevice::FenceDevice(int threads)
    : CpuDevice(threads), kernels_left_(environment_number("MAKAR_FENCE_KERNELS", 0)) {}

void FenceDevice::count_kernel() {
  if (kernels_left_ > 0 && --kernels_left_ == 0) {
    kernels_left_ = 1;  // a lost device stays lost
    throw DeviceFailure("the fence device failed, as MAKAR_FENCE_KERNELS requests");
  }
}

#define MAKAR_KERNEL(entry, arguments)                      \
  void FenceDevice::entry(const kernels::arguments& args) { \
    if (!memory_.is_open()) count_kernel();                 \
    const OpenScope open_scope(memory_);                    \
    CpuDevice::entry(args);                                 \
  }
MAKAR_DEVICE_KERNELS(MAKAR_KERNEL)
#undef MAKAR_KERNEL

}  // namespace makar
