// Answers of /v1/responses that are kept: a client goes on with one by its id alone. In memory, bounded; what
// was not used for the longest time goes first.
#pragma once
#include <list>
#include <map>
#include <mutex>
#include <string>

#include "base/json.h"

namespace makar {

class ResponseStore {
 public:
  explicit ResponseStore(size_t most = 1024, size_t most_bytes = size_t{64} << 20)
      : most_(most), most_bytes_(most_bytes) {}

  // Nobody but its owner finds a response. `input`: the items that this request added to the conversation.
  void keep(const std::string& owner, const Json& response, Json input);
  Result<Json> response(const std::string& owner, const std::string& id);
  Result<Json> input(const std::string& owner, const std::string& id);
  Status remove(const std::string& owner, const std::string& id);
  // All items of the conversation that ends with this response, its own output included.
  Result<Json> conversation(const std::string& owner, const std::string& id);
  size_t size() const;

 private:
  struct Kept {
    std::string key;  // owner and id
    Json response, input;
    size_t bytes = 0;
  };
  Result<Kept*> find(const std::string& owner, const std::string& id);
  void drop(std::list<Kept>::iterator kept);

  const size_t most_, most_bytes_;
  mutable std::mutex mutex_;
  std::list<Kept> kept_;  // the last one used first
  std::map<std::string, std::list<Kept>::iterator> by_key_;
  size_t bytes_ = 0;
};

}  // namespace makar
