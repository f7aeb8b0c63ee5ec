// A queue of work by caller: callers take turns, so that many requests of one caller do not delay another's.
// Within a caller the smallest item runs first, and every fourth time the oldest, so that large items are not
// starved.
#pragma once
#include <bit>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

namespace makar {

template <class Item>
class FairQueue {
 public:
  // `bytes`: input size, as an estimate of the work.
  void push(const std::string& caller, size_t bytes, Item item) {
    auto [found, added] = callers_.try_emplace(caller);
    Caller& own = found->second;
    if (added) own.turn = turns_.insert(turns_.end(), caller);
    const uint64_t arrival = arrivals_++;
    own.by_arrival.emplace(arrival, Waiting{size_class(bytes), std::move(item)});
    own.by_size.emplace(std::pair{size_class(bytes), arrival}, arrival);
    ++size_;
  }

  // The next item of a caller allowed by `may_run`; none if no waiting caller is allowed.
  template <class MayRun>
  std::optional<std::pair<std::string, Item>> pop(const MayRun& may_run) {
    for (auto turn = turns_.begin(); turn != turns_.end(); ++turn) {
      if (!may_run(*turn)) continue;
      const std::string caller = *turn;
      Caller& own = callers_.at(caller);
      constexpr uint64_t kOldestEvery = 4;
      const uint64_t arrival =
          ++own.popped % kOldestEvery == 0 ? own.by_arrival.begin()->first : own.by_size.begin()->second;
      const auto found = own.by_arrival.find(arrival);
      std::pair out(caller, std::move(found->second.item));
      own.by_size.erase({found->second.size_class, arrival});
      own.by_arrival.erase(found);
      --size_;
      if (own.by_arrival.empty()) {
        turns_.erase(turn);
        callers_.erase(caller);
      } else {
        turns_.splice(turns_.end(), turns_, turn);
      }
      return out;
    }
    return std::nullopt;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  // Powers of two from 1 KiB: requests of similar size keep their order.
  static int size_class(size_t bytes) { return std::bit_width(bytes >> 10); }

  struct Waiting {
    int size_class;
    Item item;
  };
  struct Caller {
    std::map<uint64_t, Waiting> by_arrival;
    std::map<std::pair<int, uint64_t>, uint64_t> by_size;
    std::list<std::string>::iterator turn;
    uint64_t popped = 0;
  };
  std::unordered_map<std::string, Caller> callers_;
  std::list<std::string> turns_;  // callers with waiting items, next one first
  uint64_t arrivals_ = 0;
  size_t size_ = 0;
};

}  // namespace makar
