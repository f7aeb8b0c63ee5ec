// Admission: limits the number of requests in the server, in total and per caller. At the limit, a request is
// refused before any work is done for it.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace makar {

class Gate {
 public:
  // `places`: the limit for the only caller. The total is a quarter higher, so that other callers find
  // a place.
  explicit Gate(int64_t places)
      : places_(places), total_places_((places * (kShare + 1) + kShare - 1) / kShare) {}

  // Occupies one place for the lifetime of a request.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Gate* gate, std::string caller) : gate_(gate), caller_(std::move(caller)) {}
    Ticket(Ticket&& other) noexcept
        : gate_(std::exchange(other.gate_, nullptr)), caller_(std::move(other.caller_)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(gate_, other.gate_), std::swap(caller_, other.caller_);
      return *this;
    }
    ~Ticket() {
      if (gate_) gate_->leave(caller_);
    }
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    Gate* gate_ = nullptr;
    std::string caller_;
  };

  // Returns an empty ticket at the limit.
  Ticket enter(const std::string& caller) {
    const std::lock_guard lock(mutex_);
    if (!admits_locked(caller)) return {};
    ++by_caller_[caller];
    ++in_flight_;
    return Ticket(this, caller);
  }
  bool admits(const std::string& caller) const {
    const std::lock_guard lock(mutex_);
    return admits_locked(caller);
  }
  int64_t in_flight() const {
    const std::lock_guard lock(mutex_);
    return in_flight_;
  }
  int64_t in_flight(const std::string& caller) const {
    const std::lock_guard lock(mutex_);
    return places_of(caller);
  }
  int64_t places() const { return places_; }

 private:
  // After each admission a caller holds at most kShare times as many places as are free. One caller alone
  // gets `places_`, two get 5/9 of that each, and a caller without a request finds a free place.
  static constexpr int64_t kShare = 4;

  int64_t places_of(const std::string& caller) const {
    const auto found = by_caller_.find(caller);
    return found == by_caller_.end() ? 0 : found->second;
  }
  bool admits_locked(const std::string& caller) const {
    const int64_t own = places_of(caller), free = total_places_ - in_flight_;
    return free > 0 && (own == 0 || own + 1 <= kShare * (free - 1));
  }
  void leave(const std::string& caller) {
    const std::lock_guard lock(mutex_);
    --in_flight_;
    if (const auto found = by_caller_.find(caller); --found->second == 0) by_caller_.erase(found);
  }

  const int64_t places_, total_places_;
  mutable std::mutex mutex_;
  int64_t in_flight_ = 0;
  std::unordered_map<std::string, int64_t> by_caller_;  // callers with requests
};

}  // namespace makar
