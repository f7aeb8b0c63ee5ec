#include "serve/request_memory.h"

#include <malloc.h>

#include <utility>

namespace makar {
namespace {

// Releasing at least this many bytes trims the heap; otherwise the process would stay at its peak size after
// a burst of large requests.
constexpr int64_t kTrimBytes = int64_t{8} << 20;

double megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

int64_t RequestMemory::reserved() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

RequestMemory::Share::Share(Share&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

RequestMemory::Share& RequestMemory::Share::operator=(Share&& other) noexcept {
  std::swap(memory_, other.memory_), std::swap(bytes_, other.bytes_);
  return *this;
}

RequestMemory::Share::~Share() { shrink(0); }

void RequestMemory::Share::shrink(int64_t bytes) {
  if (!memory_ || bytes >= bytes_) return;
  const int64_t freed = bytes_ - bytes;
  {
    const std::lock_guard lock(memory_->mutex_);
    memory_->reserved_ -= freed, bytes_ = bytes;
  }
  if (freed >= kTrimBytes) ::malloc_trim(0);
}

Status RequestMemory::Share::add(int64_t bytes, const char* what) {
  if (!memory_) return Done{};
  const std::lock_guard lock(memory_->mutex_);
  const int64_t limit = memory_->limit_;
  if (bytes > limit - bytes_)
    return error_of(Error::Kind::kLimit, "body",
                    "the request needs about {:.0f} MB with {}; this server has {:.0f} MB for requests: send "
                    "less, or start it with a larger --mem-budget",
                    megabytes(bytes_ + bytes), what, megabytes(limit));
  if (bytes > limit - memory_->reserved_)
    return error_of(Error::Kind::kLimit, "memory",
                    "requests in flight hold {:.0f} of {:.0f} MB, and this one needs about {:.0f} MB; try "
                    "again later",
                    megabytes(memory_->reserved_), megabytes(limit), megabytes(bytes_ + bytes));
  memory_->reserved_ += bytes, bytes_ += bytes;
  return Done{};
}

// Sizes are those of nlohmann's ordered JSON: 16 bytes per value, 48 per field of an object, a heap block per
// string and container; lists grow by doubling, and the table that detects duplicate keys takes up to 64
// bytes per key.
int64_t json_memory(std::string_view text) {
  int64_t values = 1, fields = 0, containers = 0, strings = 0, string_bytes = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"': {
        ++strings;
        const size_t begin = ++i;
        while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
        string_bytes += static_cast<int64_t>(i - begin);
        break;
      }
      case ',':
        ++values;
        break;
      case ':':
        ++fields;
        break;
      case '[':
      case '{':
        ++values, ++containers;
        break;
      default:
        break;
    }
  }
  return values * 32 + fields * (96 + 64) + containers * 64 + strings * 80 + 2 * string_bytes;
}

}  // namespace makar
