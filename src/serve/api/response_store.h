// Stored answers of /v1/responses, so that a client can continue a conversation by id. In memory and bounded;
// the least recently used is evicted first.
#pragma once
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/json.h"

namespace makar {

class ResponseStore {
 public:
  // Each owner is limited to a quarter of both limits; without owners there is no such limit.
  explicit ResponseStore(size_t max_count = 1024, size_t max_bytes = size_t{64} << 20)
      : max_count_(max_count), max_bytes_(max_bytes) {}

  using Shared = std::shared_ptr<const Json>;  // readable without lock or copy
  // A response is visible only to its owner. `input`: the items that this request added to the conversation.
  void add(const std::string& owner, const Json& response, Json input);
  Result<Shared> response(const std::string& owner, const std::string& id);
  Result<Shared> input(const std::string& owner, const std::string& id);
  Status remove(const std::string& owner, const std::string& id);
  // All items of the conversation that ends with this response, its own output included.
  Result<Json> conversation(const std::string& owner, const std::string& id);
  size_t size() const;

 private:
  struct StoredResponse {
    std::string owner, key;  // key: owner and id
    Shared response, input;
    size_t bytes = 0;
  };
  Result<StoredResponse*> find(const std::string& owner, const std::string& id);
  void drop(std::list<StoredResponse>::iterator entry);
  // The limits are divided by this for one owner.
  static size_t owner_divisor(const std::string& owner) { return owner.empty() ? 1 : 4; }
  // Evicts the least recently used responses until `bytes` fit.
  void make_room(const std::string& owner, size_t bytes);

  const size_t max_count_, max_bytes_;
  mutable std::mutex mutex_;
  std::list<StoredResponse> responses_;  // most recently used first
  std::map<std::string, std::list<StoredResponse>::iterator> by_key_;
  size_t bytes_ = 0;
};

}  // namespace makar
