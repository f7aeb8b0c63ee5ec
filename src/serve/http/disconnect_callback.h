// A callback that runs once when the client disconnects; immediately if it has already disconnected.
#pragma once
#include <functional>
#include <mutex>

namespace makar {

class DisconnectCallback {
 public:
  void set(std::function<void()> callback) {
    {
      const std::lock_guard lock(mutex_);
      if (!disconnected_) {
        callback_ = std::move(callback);
        return;
      }
    }
    callback();
  }
  void disconnect() {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      disconnected_ = true;
      callback = std::move(callback_);
    }
    if (callback) callback();
  }

 private:
  std::mutex mutex_;
  std::function<void()> callback_;
  bool disconnected_ = false;
};

}  // namespace makar
