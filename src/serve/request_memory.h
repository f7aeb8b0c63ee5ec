// The memory limit of all requests in flight: their JSON, prompts and answers, estimated before allocation. A
// request that does not fit is refused, so the process stays within its budget.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "base/error.h"

namespace makar {

class RequestMemory {
 public:
  explicit RequestMemory(int64_t bytes) : limit_(bytes) {}
  int64_t reserved() const;

  // The memory of one request; released on destruction.
  class Share {
   public:
    Share() = default;
    explicit Share(RequestMemory& memory) : memory_(&memory) {}
    Share(Share&& other) noexcept;
    Share& operator=(Share&& other) noexcept;
    ~Share();
    // Adds `bytes` for `what` ("the body"). Errors: kLimit at "memory" if other requests hold it now, at
    // "body" if the request alone exceeds the limit.
    Status add(int64_t bytes, const char* what);
    // Releases all but `bytes`, after temporary data is freed.
    void shrink(int64_t bytes);

   private:
    RequestMemory* memory_ = nullptr;
    int64_t bytes_ = 0;
  };

 private:
  const int64_t limit_;
  mutable std::mutex mutex_;
  int64_t reserved_ = 0;
};

// An upper bound of the memory of the parsed JSON.
int64_t json_memory(std::string_view text);

}  // namespace makar
