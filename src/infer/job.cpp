#include "infer/job.h"

#include <algorithm>

namespace makar {

bool Job::ready() const {
  const auto computed = [](const Branch& branch) { return branch.left() == 0; };
  return independent_branches() ? std::any_of(branches.begin(), branches.end(), computed)
                                : std::all_of(branches.begin(), branches.end(), computed);
}

void Job::preempt(KvCache& cache, Branch& branch) {
  branch.first_needed =
      std::max(branch.first_needed, branch.cached);  // rows already delivered are not delivered again
  drop(cache, branch);
}

Branch Job::fork(KvCache& cache, const Branch& from) const {
  Branch copy = from;
  if (from.slot) copy.slot = cache.fork(*from.slot, from.cached);
  return copy;
}

void Job::drop(KvCache& cache, Branch& branch) {
  if (branch.slot) cache.release(*branch.slot);
  branch.slot.reset();
  branch.cached = 0;
}

void Job::stop(KvCache& cache) {
  for (Branch& branch : branches) drop(cache, branch);
  branches.clear();
}

void Job::fail(KvCache& cache, Error reason) {
  stop(cache);
  error = std::move(reason);
}

}  // namespace makar
