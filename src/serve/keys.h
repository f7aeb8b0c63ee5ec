// The accepted API keys. They are stored and compared as digests; the log shows their names.
#pragma once
#include <string>
#include <vector>

#include "base/error.h"

namespace makar {

class KeyRing {
 public:
  struct Key {
    std::string digest, name;
    bool admin = false;  // may see server-wide data: runs, all sequences in the engine
  };
  // Reads keys from options ("a" or "a,b") and from a file: one key per line, optionally followed by a name
  // and the word "admin"; lines that begin with '#' are comments. An empty `file` means no file.
  static Result<KeyRing> read(const std::vector<std::string>& options, const std::string& file);

  bool empty() const { return keys_.empty(); }
  size_t size() const { return keys_.size(); }
  // The matching key, or nullptr. Constant time, whichever key matches.
  const Key* find(const std::string& presented) const;

 private:
  Status add(const std::string& key, const std::string& name, bool admin, const std::string& place);
  std::vector<Key> keys_;
};

}  // namespace makar
