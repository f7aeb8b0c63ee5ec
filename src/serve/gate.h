// Admission: limits the number of requests in the server. At the limit, a request is refused before any work
// is done for it.
#pragma once
#include <atomic>
#include <memory>

namespace makar {

class Gate {
 public:
  explicit Gate(int64_t places) : places_(places) {}

  // Occupies one slot for the lifetime of a request.
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

  // Returns an empty ticket at the limit.
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
