// TensorBoard event files: TFRecord framing (length, masked CRC-32C) around protocol buffers with one scalar
// each.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace makar {

uint32_t crc32c(std::string_view bytes);

class EventFile {
 public:
  // Creates events.out.tfevents.TIME.makar in the folder. Each start of a run creates a new file, as
  // TensorBoard expects.
  static Result<EventFile> create(const std::string& folder);
  Status scalar(const std::string& tag, int64_t step, double value);

 private:
  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  EventFile(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  Status write(const std::string& event);
  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
};

}  // namespace makar
