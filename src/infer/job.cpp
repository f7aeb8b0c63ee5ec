#include "infer/job.h"

namespace makar {

Branch Job::fork(KvCache& cache, const Branch& from) const {
  Branch made = from;
  if (from.slot) made.slot = cache.fork(*from.slot, from.cached);
  return made;
}

void Job::drop(KvCache& cache, Branch& branch) const {
  if (branch.slot) cache.release(*branch.slot);
  branch.slot.reset();
  branch.cached = 0;
}

void Job::stop(KvCache& cache) {
  for (Branch& branch : branches) drop(cache, branch);
  branches.clear();
}

void Job::fail(KvCache& cache, Error why) {
  stop(cache);
  error = std::move(why);
}

}  // namespace makar
