// Whether a base model is the one that an adapter was trained on: a hash of its files, computed once for each
// state of the files.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "base/json.h"

namespace makar {

// A base model when its hash was computed.
struct BaseIdentity {
  std::string path;
  std::string stamp;  // of the names, sizes and times of its files
  std::string hash;   // of their bytes; empty: unknown
};

Json base_json(const BaseIdentity& base);
// An unknown identity if `json` is not one.
BaseIdentity read_base(const Json& json);

class BaseIdentities {
 public:
  // `hash` reads all bytes of a model.
  explicit BaseIdentities(std::function<Result<std::string>(const std::string& path)> hash)
      : hash_(std::move(hash)) {}
  // The identity of the model at `path`: a file or a folder. Reads its bytes only if its files differ from
  // those of `known` and of earlier calls.
  Result<BaseIdentity> of(const std::string& path, const BaseIdentity& known = {});

 private:
  std::function<Result<std::string>(const std::string& path)> hash_;
  std::map<std::string, BaseIdentity> computed_;  // by path
};

}  // namespace makar
