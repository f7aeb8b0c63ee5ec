// Whether a base model is the one that an adapter was trained on: a hash of its files, computed once for each
// state of the files.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "base/json.h"

namespace makar {

// A base model when its hash was computed.
struct BaseIdentity {
  std::string path;
  std::string stamp;  // of the names, sizes and times of its files
  std::string hash;   // of their bytes; empty: unknown
};

// Reads all bytes of the model at `path`, unless `stop` returns true.
using HashModel =
    std::function<Result<std::string>(const std::string& path, const std::function<bool()>& stop)>;

Json base_json(const BaseIdentity& base);
// An unknown identity if `json` is not one.
BaseIdentity read_base(const Json& json);

// May be used by several threads.
class BaseIdentities {
 public:
  explicit BaseIdentities(HashModel hash) : hash_(std::move(hash)) {}
  // The identity of the model at `path`: a file or a folder. Reads its bytes only if its files differ from
  // those of `known` and of earlier calls.
  Result<BaseIdentity> of(const std::string& path, const BaseIdentity& known = {});

  // The identity of the model `name` at `path`; an error if it is not that of `known`, whose hash may be
  // empty. `since` says in messages when it was known.
  Result<BaseIdentity> check(const std::string& name, const std::string& path, const BaseIdentity& known,
                             const char* since);
  // Ends calls that read a model, now and later, with an error.
  void stop() { stopped_ = true; }

 private:
  const HashModel hash_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;                              // held while a model is read: others may wait for the same
  std::map<std::string, BaseIdentity> computed_;  // by path
};

}  // namespace makar
