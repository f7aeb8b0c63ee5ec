// The order of jobs of the same priority: callers (salts) take turns. Each job of a caller comes one turn
// after the caller's last one. A caller without waiting jobs joins at the next turn, and within a turn
// callers without a running job come first. So a caller with many waiting jobs delays another caller only
// until a running job ends. With one caller the order is that of arrival.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/job.h"

namespace makar {

class TurnOrder {
 public:
  using Jobs = std::vector<std::shared_ptr<Job>>;

  // Sets the turn of a new job; returns the position to insert it at.
  Jobs::const_iterator schedule(const Jobs& jobs, Job& job) {
    int64_t latest_running_turn = 0, own_turn = 0;
    std::optional<int64_t> next_waiting_turn;
    std::set<std::string_view> running;
    for (const auto& other : jobs) {
      if (other->priority != job.priority) continue;
      if (has_slot(*other))
        latest_running_turn = std::max(latest_running_turn, other->turn), running.insert(other->salt);
      else
        next_waiting_turn = std::min(next_waiting_turn.value_or(other->turn), other->turn);
      if (other->salt == job.salt) own_turn = std::max(own_turn, other->turn + 1);
    }
    // Forget jobs that started before the next turn; all of them if no job waits.
    std::erase_if(started_, [&](const auto& last) {
      return last.first.first == job.priority && (!next_waiting_turn || last.second < *next_waiting_turn);
    });
    if (const auto last = started_.find({job.priority, job.salt}); last != started_.end())
      own_turn = std::max(own_turn, last->second + 1);
    job.turn = std::max(next_waiting_turn.value_or(latest_running_turn), own_turn);
    const bool first_in_turn = !running.contains(job.salt);
    return std::find_if(jobs.begin(), jobs.end(), [&](const auto& other) {
      if (other->priority != job.priority) return other->priority < job.priority;
      if (other->turn != job.turn) return other->turn > job.turn;
      return first_in_turn && !has_slot(*other) && running.contains(other->salt);
    });
  }
  void started(const Job& job) { started_[{job.priority, job.salt}] = job.turn; }

 private:
  std::map<std::pair<int64_t, std::string>, int64_t> started_;  // last turn by priority and caller
};

}  // namespace makar
