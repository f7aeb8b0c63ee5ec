// Responses of finished documents, by hash: an append-only file of JSON lines, from which a killed run
// resumes.
#pragma once
#include <cstdio>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/json.h"

namespace makar {

class EvalCache {
 public:
  // Reads the file if there is one and removes an incomplete last line. An empty path: memory only.
  static Result<EvalCache> open(const std::string& path);
  const Json* find(const std::string& key) const;
  // Appends to the file; flush() makes a batch durable.
  Status add(const std::string& key, const Json& responses);
  Status flush();
  size_t size() const { return values_.size(); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::unordered_map<std::string, Json> values_;
};

}  // namespace makar
