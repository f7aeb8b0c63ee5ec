#include "train/background_save.h"

#include <chrono>

namespace makar {

Status BackgroundSave::start(std::function<Status()> write) {
  MAKAR_RETURN_IF_ERROR(wait());
  running_ = std::async(std::launch::async, std::move(write));
  return Done{};
}

Status BackgroundSave::poll() {
  if (!running_.valid() || running_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return Done{};
  return running_.get();
}

Status BackgroundSave::wait() {
  if (!running_.valid()) return Done{};
  return running_.get();
}

}  // namespace makar
