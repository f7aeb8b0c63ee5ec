// Limits the bytes of request bodies in memory: for all clients, and per caller (a key, or an address without
// keys). The first bytes of every connection are not counted, so a short request is read even when uploads
// have filled the pool. Used only on the server thread.
#pragma once
#include <cstddef>
#include <map>
#include <string>

namespace makar {

class BodyPool {
 public:
  static constexpr size_t kUncountedBytes = size_t{64} << 10;  // per connection, not counted
  explicit BodyPool(size_t limit) : limit_(limit) {}
  size_t max_body() const { return limit_ / 2 + kUncountedBytes; }  // the largest possible body
  size_t counted_bytes() const { return counted_bytes_; }

  // The bytes of one connection.
  class Share {
   public:
    explicit Share(BodyPool& pool) : pool_(pool) {}
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    ~Share() { release(); }

    enum class Full { kNo, kCaller, kPool };  // the limit that is exceeded
    // Grows or shrinks to `bytes`; no change if a limit is exceeded.
    Full resize(const std::string& caller, size_t bytes) {
      const size_t counted = bytes > kUncountedBytes ? bytes - kUncountedBytes : 0;
      if (caller != caller_) release(), caller_ = caller;
      if (counted > counted_) {
        const size_t growth = counted - counted_;
        const auto of_caller = pool_.callers_.find(caller_);
        const size_t own = of_caller == pool_.callers_.end() ? 0 : of_caller->second;
        if (own + growth > pool_.limit_ / 2) return Full::kCaller;
        if (pool_.counted_bytes_ + growth > pool_.limit_) return Full::kPool;
      }
      set(counted);
      return Full::kNo;
    }
    void release() { set(0); }
    size_t counted() const { return counted_; }
    const std::string& caller() const { return caller_; }

   private:
    void set(size_t counted) {
      if (counted == counted_) return;
      size_t& own = pool_.callers_[caller_];
      own = own - counted_ + counted;
      if (own == 0) pool_.callers_.erase(caller_);
      pool_.counted_bytes_ = pool_.counted_bytes_ - counted_ + counted;
      counted_ = counted;
    }
    BodyPool& pool_;
    std::string caller_;
    size_t counted_ = 0;
  };

 private:
  const size_t limit_;
  size_t counted_bytes_ = 0;
  std::map<std::string, size_t> callers_;
};

}  // namespace makar
