// Memory, streams and graphs of the simulated GPU. Work is done in its order, when it is enqueued or its
// graph is launched; a kernel at the latest when the next one has started, and copies to the host arrive when
// it waits.
#include <cuda_runtime.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace makar::simulated_gpu {

// A kernel (with its function) or a copy.
struct Item {
  std::function<void(std::function<void()> previous)> run;
  const void* kernel = nullptr;
  bool early = false;  // may start before the one before it has ended
};

}  // namespace makar::simulated_gpu

struct SimulatedGraph {
  std::vector<makar::simulated_gpu::Item> work;
};
struct SimulatedStream {
  std::unique_ptr<SimulatedGraph> recording;
};
struct SimulatedEvent {};

namespace makar::simulated_gpu {
namespace {

constexpr size_t kDeviceMemory = size_t{2} << 30, kDefaultShared = 48 << 10;

struct Device {
  std::recursive_mutex mutex;  // one launch at a time
  std::unordered_map<void*, size_t> blocks;
  size_t used = 0;
  std::map<const void*, size_t> max_shared;  // of kernels that ask for more than 48 KiB
  Item held;                                 // a kernel that runs when the next one has started
  bool hold = false;                         // whether the next one is held
  struct Delivery {
    void* to;
    std::vector<std::byte> bytes;
  };
  std::vector<Delivery> deliveries;  // copies to the host, which arrive when the host waits
};
Device& device() {
  static Device& one = *new Device;  // the last device is closed after main()
  return one;
}
// Tests choose small shapes (tests/real_gpu.h).
const int is_set = setenv("MAKAR_TEST_SMALL_SHAPES", "1", 1);

// Runs the held kernel: the host or a copy needs its results.
void finish() {
  Device& d = device();
  const Item held = std::exchange(d.held, {});
  d.hold = !settings().reverse;
  if (held.run) held.run(nullptr);
}

// With Settings::late, pairs of kernels overlap as far as the second one's launch allows: every other kernel
// is held until the next one is launched. `reverse` begins with the second kernel. Two launches of one kernel
// do not overlap, as they have the same static shared memory here.
void perform(const Item& item) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  if (!item.kernel || !settings().late) {
    finish();
    item.run(nullptr);
  } else if (d.held.run) {
    const Item held = std::exchange(d.held, {});
    if (item.early && item.kernel != held.kernel) return item.run([&held] { held.run(nullptr); });
    held.run(nullptr);
    d.held = item;
  } else if (d.hold) {
    d.held = item;
  } else {
    d.hold = true;
    item.run(nullptr);
  }
}

cudaError_t enqueue(cudaStream_t stream, Item item) {
  if (stream && stream->recording)
    stream->recording->work.push_back(std::move(item));
  else
    perform(item);
  return cudaSuccess;
}

cudaError_t synchronize() {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  finish();
  for (const Device::Delivery& delivery : d.deliveries)
    std::memcpy(delivery.to, delivery.bytes.data(), delivery.bytes.size());
  d.deliveries.clear();
  return cudaSuccess;
}

}  // namespace

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work) {
  return enqueue(stream, Item{[work = std::move(work)](const std::function<void()>&) { work(); }});
}

void set_max_shared(const void* kernel, size_t bytes) {
  const std::lock_guard lock(device().mutex);
  device().max_shared[kernel] = bytes;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::function<void()> body) {
  const dim3 grid = config.gridDim, threads = config.blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT_MAX || grid.y > 65535 || grid.z > 65535 ||
      threads.x == 0 || threads.y == 0 || threads.z == 0 || threads.z > 64 ||
      uint64_t{threads.x} * threads.y * threads.z > kMaxThreads)
    return cudaErrorInvalidConfiguration;
  {
    const std::lock_guard lock(device().mutex);
    const auto set = device().max_shared.find(kernel);
    if (config.dynamicSmemBytes > (set == device().max_shared.end() ? kDefaultShared : set->second))
      return cudaErrorInvalidValue;
  }
  Item item;
  item.run = [=, shared = config.dynamicSmemBytes](std::function<void()> previous) {
    run_grid({grid.x, grid.y, grid.z}, {threads.x, threads.y, threads.z}, shared, body, std::move(previous));
  };
  item.kernel = kernel;
  item.early = config.numAttrs > 0 && config.attrs[0].val.programmaticStreamSerializationAllowed;
  return enqueue(config.stream, std::move(item));
}

}  // namespace makar::simulated_gpu

using namespace makar::simulated_gpu;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidValue:
      return "invalid argument";
    default:
      return "invalid configuration argument";
  }
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {"simulated GPU", 9, 0};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr name, int) {
  *value = name == cudaDevAttrMultiProcessorCount ? 132 : 1;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** block, size_t bytes) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  if (bytes > kDeviceMemory - d.used) return cudaErrorMemoryAllocation;
  const size_t size = (std::max<size_t>(bytes, 1) + 255) / 256 * 256;
  *block = std::aligned_alloc(256, size);
  if (!*block) return cudaErrorMemoryAllocation;
  d.blocks[*block] = bytes, d.used += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* block) {
  Device& d = device();
  const std::lock_guard lock(d.mutex);
  finish();
  const auto found = d.blocks.find(block);
  if (found == d.blocks.end()) return cudaErrorInvalidValue;
  d.used -= found->second;
  d.blocks.erase(found);
  std::free(block);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const std::lock_guard lock(device().mutex);
  *free = kDeviceMemory - device().used, *total = kDeviceMemory;
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** block, size_t bytes) {
  *block = std::malloc(bytes);
  return *block ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* block) {
  std::free(block);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  if (kind == cudaMemcpyHostToDevice && stream && stream->recording)
    return cudaErrorInvalidValue;  // the host's memory may change
  return enqueue(stream, [=] {
    if (kind != cudaMemcpyDeviceToHost || !settings().late) {
      std::memmove(to, from, bytes);
      return;
    }
    const auto* begin = static_cast<const std::byte*>(from);
    device().deliveries.push_back({to, {begin, begin + bytes}});
    std::memset(to, 0xFF, bytes);
  });
}
cudaError_t cudaMemsetAsync(void* block, int value, size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  return enqueue(stream, [=] { std::memset(block, value, bytes); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new SimulatedStream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return stream && stream->recording ? cudaErrorInvalidValue : synchronize();
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream->recording) return cudaErrorInvalidValue;
  stream->recording = std::make_unique<SimulatedGraph>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!stream->recording) return cudaErrorInvalidValue;
  *graph = stream->recording.release();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->recording ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new SimulatedGraph{graph->work};
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  for (const Item& item : graph->work) perform(item);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new SimulatedEvent;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return synchronize(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1;
  return cudaSuccess;
}
