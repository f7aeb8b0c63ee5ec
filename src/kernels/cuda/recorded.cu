// Recorded work as CUDA graphs, and copies to the host that do not wait for later kernels.
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/cuda_device.cuh"
#include "kernels/cuda/host_buffers.cuh"
#include "kernels/cuda/launch.cuh"

namespace makar {
namespace {

class Graph : public RecordedWork {
 public:
  Graph(cudaStream_t stream, CudaMemory& memory, CudaMemory::Blocks blocks, cudaGraphExec_t graph)
      : stream_(stream), memory_(memory), blocks_(std::move(blocks)), graph_(graph) {}
  ~Graph() override {
    cudaStreamSynchronize(stream_);  // the graph may still run
    cudaGraphExecDestroy(graph_);
    memory_.release(blocks_);
  }
  void run() override { cuda_check(cudaGraphLaunch(graph_, stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  CudaMemory& memory_;
  CudaMemory::Blocks blocks_;
  cudaGraphExec_t graph_;
};

class HostCopy : public PendingCopy {
 public:
  HostCopy(std::shared_ptr<HostBuffers> buffers, HostBuffers::Buffer buffer) : buffers_(std::move(buffers)), buffer_(buffer) {}
  ~HostCopy() override {
    cudaEventSynchronize(buffer_.done);
    buffers_->give_back(buffer_);
  }
  const std::byte* wait() override {
    cuda_check(cudaEventSynchronize(buffer_.done), "copy from the GPU");
    return buffer_.data;
  }

 private:
  std::shared_ptr<HostBuffers> buffers_;
  HostBuffers::Buffer buffer_;
};

}  // namespace

bool CudaDevice::records_work() const {
  static const bool on = [] {
    const char* setting = std::getenv("MAKAR_GRAPHS");
    return !setting || std::strcmp(setting, "0") != 0;
  }();
  return on;
}

std::unique_ptr<RecordedWork> CudaDevice::record(std::function<void()> work) {
  finish();  // constants are copied in another stream, to blocks that queued kernels may still use
  memory_.begin_recording();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  try {
    cuda_check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    work();
    cuda_check(cudaStreamEndCapture(stream_, &graph), "cudaStreamEndCapture");
    cuda_check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  } catch (...) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(stream_, &status) == cudaSuccess && status != cudaStreamCaptureStatusNone)
      cudaStreamEndCapture(stream_, &graph);
    if (graph) cudaGraphDestroy(graph);
    memory_.release(memory_.end_recording());
    throw;
  }
  cudaGraphDestroy(graph);
  return std::make_unique<Graph>(stream_, memory_, memory_.end_recording(), executable);
}

std::unique_ptr<PendingCopy> CudaDevice::copy_later(const std::byte* from, size_t bytes) {
  if (!host_buffers_) host_buffers_ = std::make_shared<HostBuffers>();
  const HostBuffers::Buffer buffer = host_buffers_->take(bytes);
  auto copy = std::make_unique<HostCopy>(host_buffers_, buffer);
  cuda_check(cudaMemcpyAsync(buffer.data, from, bytes, cudaMemcpyDeviceToHost, stream_), "copy from the GPU");
  cuda_check(cudaEventRecord(buffer.done, stream_), "cudaEventRecord");
  return copy;
}

}  // namespace makar
