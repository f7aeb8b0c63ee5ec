// Admission: how many requests may be inside at once. Whoever comes when it is full is told so before any
// work.
#pragma once
#include <atomic>
#include <memory>

namespace makar {

class Gate {
 public:
  explicit Gate(int64_t places) : places_(places) {}

  // Held for as long as the request is inside.
  class Ticket {
   public:
    Ticket() = default;
    explicit Ticket(Gate* gate) : gate_(gate) {}
    Ticket(Ticket&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Ticket() {
      if (gate_) --gate_->inside_;
    }
    explicit operator bool() const { return gate_ != nullptr; }

   private:
    Gate* gate_ = nullptr;
  };

  // An empty ticket: there is no place.
  Ticket enter() {
    if (++inside_ <= places_) return Ticket(this);
    --inside_;
    return {};
  }
  bool full() const { return inside_ >= places_; }
  int64_t inside() const { return inside_; }
  int64_t places() const { return places_; }

 private:
  const int64_t places_;
  std::atomic<int64_t> inside_{0};
};

}  // namespace makar
