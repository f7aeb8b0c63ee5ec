// Failures of the machine while a command runs: neither wrong input nor a bug. They end a command, or a
// request of a server.
#pragma once
#include <new>
#include <stdexcept>
#include <string>

namespace makar {

// what() says how much memory was requested and how much there is.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

// A device that stopped working, such as a GPU after an error of its driver.
struct DeviceFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace makar
