#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "kernels/cuda/cublas.h"
#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {
namespace {

constexpr size_t kSmallStep = 512, kLargeBytes = size_t{1} << 20;

// Size classes: multiples of 512 bytes for small blocks, steps of 1/8 of the size for large ones.
size_t size_class(size_t bytes) {
  if (bytes <= kLargeBytes) return (std::max(bytes, size_t{1}) + kSmallStep - 1) / kSmallStep * kSmallStep;
  size_t step = kLargeBytes / 8;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

OutOfMemory out_of_memory(size_t bytes, size_t free, size_t total) {
  return OutOfMemory(
      fmt::format("the GPU is out of memory: {} MB were requested, {} of {} MB are free; use a smaller batch, a "
                  "shorter context or a smaller model",
                  bytes >> 20, free >> 20, total >> 20));
}

}  // namespace

CudaMemory::CudaMemory(cudaStream_t stream)
    : Memory(false), stream_(stream), poison_(std::getenv("MAKAR_POISON") != nullptr) {}
CudaMemory::~CudaMemory() {
  trim();
  if (copies_) cudaStreamDestroy(copies_);
}

void CudaMemory::trim() {
  for (const auto& [size, block] : free_) cudaFree(block);
  free_.clear();
}

std::byte* CudaMemory::allocate(size_t bytes) {
  std::byte* block = take_block(bytes);
  if (poison_) cuda_check(cudaMemsetAsync(block, 0xFF, bytes, stream_), "filling GPU memory with NaN");
  return block;
}

std::byte* CudaMemory::take_block(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const size_t size = size_class(bytes);
  std::byte* block = recording_ ? take_cached(recording_free_, size) : nullptr;
  if (!block) block = take_from_all(size);
  if (recording_) recorded_[block] = true, recording_blocks_.insert(block);
  return block;
}

// A block that nothing else in the recording uses.
std::byte* CudaMemory::take_constant(size_t bytes) {
  const std::lock_guard lock(mutex_);
  std::byte* block = take_from_all(size_class(bytes));
  recorded_[block] = false, recording_blocks_.insert(block);
  return block;
}

std::byte* CudaMemory::take_from_all(size_t size) {
  std::byte* block = take_cached(free_, size);
  if (!block) sizes_[block = allocate_new(size)] = size;
  return block;
}

std::byte* CudaMemory::take_cached(std::multimap<size_t, std::byte*>& from, size_t size) {
  const auto cached = from.lower_bound(size);
  if (cached == from.end() || cached->first > size + size / 4) return nullptr;
  std::byte* block = cached->second;
  sizes_[block] = cached->first;
  from.erase(cached);
  return block;
}

std::byte* CudaMemory::allocate_new(size_t size) {
  std::byte* block = nullptr;
  cudaError_t status = cudaMalloc(reinterpret_cast<void**>(&block), size);
  if (status == cudaErrorMemoryAllocation) {  // cached free blocks may have the wrong sizes
    cudaGetLastError();
    trim();
    status = cudaMalloc(reinterpret_cast<void**>(&block), size);
  }
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    throw out_of_memory(size, free, total);
  }
  cuda_check(status, "cudaMalloc");
  return block;
}

void CudaMemory::deallocate(std::byte* block, size_t) {
  const std::lock_guard lock(mutex_);
  const auto entry = sizes_.find(block);
  check(entry != sizes_.end(), "deallocate: the block is not from this memory");
  if (const auto recorded = recorded_.find(block); recorded != recorded_.end()) {  // the recording keeps it
    recorded->second = false;
    if (recording_blocks_.contains(block)) recording_free_.emplace(entry->second, block);
    return;
  }
  free_.emplace(entry->second, block);
  sizes_.erase(entry);
}

void CudaMemory::begin_recording() {
  const std::lock_guard lock(mutex_);
  if (!copies_) cuda_check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "cudaStreamCreate");
  recording_ = true;
}
CudaMemory::Blocks CudaMemory::end_recording() {
  const std::lock_guard lock(mutex_);
  recording_ = false;
  recording_free_.clear();
  return std::exchange(recording_blocks_, {});
}
void CudaMemory::release(const Blocks& blocks) {
  const std::lock_guard lock(mutex_);
  for (std::byte* block : blocks) {
    const auto recorded = recorded_.find(block);
    const bool in_use = recorded->second;
    recorded_.erase(recorded);
    if (in_use) continue;  // its tensor frees it
    const auto entry = sizes_.find(block);
    free_.emplace(entry->second, block);
    sizes_.erase(entry);
  }
}

void CudaMemory::copy_in(std::byte* to, const std::byte* host, size_t bytes) {
  if (!recording_) {
    cuda_check(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, stream_), "copy to the GPU");
    return;
  }
  // Other kernels of the recording may write to `to`, before and after those that need these bytes.
  std::byte* constant = take_constant(bytes);
  cuda_check(cudaMemcpyAsync(constant, host, bytes, cudaMemcpyHostToDevice, copies_), "copy to the GPU");
  cuda_check(cudaStreamSynchronize(copies_), "copy to the GPU");
  copy(to, constant, bytes);
}
void CudaMemory::copy_out(std::byte* host, const std::byte* from, size_t bytes) {
  check(!recording_, "recorded work does not copy to the host");
  cuda_check(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy from the GPU");
  cuda_check(cudaStreamSynchronize(stream_), "copy from the GPU");
}
void CudaMemory::copy(std::byte* to, const std::byte* from, size_t bytes) {
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_), "copy on the GPU");
}
void CudaMemory::zero(std::byte* block, size_t bytes) {
  cuda_check(cudaMemsetAsync(block, 0, bytes, stream_), "zeroing GPU memory");
}
int64_t CudaMemory::capacity() const {
  size_t free = 0, total = 0;
  cuda_check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<int64_t>(total);
}

CudaDevice::CudaDevice(cudaStream_t stream) : owned_(stream), stream_(stream), memory_(stream) {}
CudaDevice::~CudaDevice() { cudaStreamSynchronize(stream_); }

void CudaDevice::finish() { cuda_check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

MachineLimits CudaDevice::measure_limits() {
  constexpr size_t kBytes = size_t{1} << 30;
  const CudaScratch<std::byte> from(memory_, kBytes), to(memory_, kBytes);
  cudaEvent_t begin, end;
  cuda_check(cudaEventCreate(&begin), "event");
  cuda_check(cudaEventCreate(&end), "event");
  float best = 0;
  for (int i = 0; i < 4; ++i) {
    cuda_check(cudaEventRecord(begin, stream_), "event");
    memory_.copy(to.data(), from.data(), kBytes);
    cuda_check(cudaEventRecord(end, stream_), "event");
    cuda_check(cudaEventSynchronize(end), "event");
    float ms = 0;
    cuda_check(cudaEventElapsedTime(&ms, begin, end), "event");
    best = std::max(best, 2.0f * kBytes / 1000 / ms);
  }
  cudaEventDestroy(begin), cudaEventDestroy(end);
  int clock = 0, multiprocessors = 0;
  cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, 0);
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  return {best * 1e6, 2.0 * 128 * multiprocessors * clock * 1e3, 0};  // 128 f32 lanes per multiprocessor
}

Result<std::unique_ptr<Device>> open_cuda_device() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0)
    return error_of(Error::Kind::kUnsupported, "device",
                    "no NVIDIA GPU can be used: {}; use the device 'cpu'",
                    status != cudaSuccess ? cudaGetErrorString(status) : "none is installed");
  cudaDeviceProp properties;
  cuda_check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  if (properties.major != 9)  // wgmma and tensor maps of 9.0a exist in no other generation
    return error_of(
        Error::Kind::kUnsupported, "device",
        "'{}' has compute capability {}.{}, and this program is built for 9.0 (Hopper); use the device 'cpu'",
        properties.name, properties.major, properties.minor);
  cudaStream_t stream;
  cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return std::unique_ptr<Device>(std::make_unique<CudaDevice>(stream));
}

}  // namespace makar
