#include "data/token_store.h"

#include <algorithm>
#include <cstring>

#include "base/file.h"
#include "base/sha256.h"
#include "formats/config.h"

namespace makar {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

Status TokenWriter::open() {
  const std::string name = fmt::format("{}/{}-{:05}", folder_, split_, shards_.size());
  MAKAR_TRY(auto ids, FileWriter::open(name + ".tokens"));
  MAKAR_TRY(auto index, FileWriter::open(name + ".index"));
  ids_.emplace(std::move(ids)), index_.emplace(std::move(index));
  if (masked_) {
    MAKAR_TRY(auto mask, FileWriter::open(name + ".mask"));
    mask_.emplace(std::move(mask));
  }
  shard_tokens_ = shard_documents_ = 0;
  return Done{};
}

Status TokenWriter::close() {
  const std::string name = fmt::format("{}-{:05}", split_, shards_.size());
  MAKAR_RETURN_IF_ERROR(ids_->commit());
  MAKAR_RETURN_IF_ERROR(index_->commit());
  if (mask_) MAKAR_RETURN_IF_ERROR(mask_->commit());
  ids_.reset(), index_.reset(), mask_.reset();
  MAKAR_TRY(const std::string sum, sha256_of_file(folder_ + "/" + name + ".tokens"));
  shards_.push_back({{"name", name},
                     {"tokens", shard_tokens_},
                     {"documents", shard_documents_},
                     {"masked", masked_},
                     {"sha256", sum}});
  return Done{};
}

Status TokenWriter::add(std::span<const uint32_t> ids, bool ends, std::span<const uint8_t> mask) {
  check(mask.size() == (masked_ ? ids.size() : 0), "one mask byte per token");
  if (!ids_) MAKAR_RETURN_IF_ERROR(open());
  if (ids_32bit_) {
    MAKAR_RETURN_IF_ERROR(ids_->write(std::as_bytes(ids)));
  } else {
    const std::vector<uint16_t> narrow(ids.begin(), ids.end());
    MAKAR_RETURN_IF_ERROR(ids_->write(bytes_of(narrow)));
  }
  if (masked_) MAKAR_RETURN_IF_ERROR(mask_->write(std::as_bytes(mask)));
  shard_tokens_ += ids.size(), tokens_ += ids.size();
  if (!ends) return Done{};
  const uint64_t end[] = {shard_tokens_};
  MAKAR_RETURN_IF_ERROR(index_->write(std::as_bytes(std::span(end))));
  ++shard_documents_, ++documents_;
  return shard_tokens_ >= kShardTokens ? close() : Status(Done{});
}

Result<Json> TokenWriter::finish() {
  if (ids_) MAKAR_RETURN_IF_ERROR(close());
  return shards_;
}

bool TokenStore::has(const std::string& folder, const std::string& split) {
  const auto manifest = read_json(folder + "/manifest.json");
  return manifest.ok() && manifest->is_object() && manifest->contains("splits") &&
         (*manifest)["splits"].is_object() && (*manifest)["splits"].contains(split);
}

Result<TokenStore> TokenStore::open(const std::string& folder, const std::string& split) {
  MAKAR_TRY(const Config manifest, Config::read(folder, "manifest.json"));
  MAKAR_TRY(const std::string format, manifest.choice("format", {"makar-tokens-1"}));
  MAKAR_TRY(const int64_t bits, manifest.integer("bits", 16, 32));
  MAKAR_TRY(const Config splits, manifest.object("splits"));
  MAKAR_TRY(const Config range, splits.object(split));
  TokenStore store;
  MAKAR_TRY(store.vocab_, manifest.integer("vocab_size", 1, int64_t{1} << 31));
  MAKAR_TRY(const std::string stored_name, range.text_or("range_of", split));
  MAKAR_TRY(const Config stored_split, splits.object(stored_name));
  if (!stored_split.json().contains("shards") || !stored_split.json()["shards"].is_array())
    return stored_split.field_error("shards", "must be a list");
  const size_t width = bits == 32 ? 4 : 2;
  for (const Json& entry : stored_split.json()["shards"]) {
    const Config shard(entry.is_object() ? entry : Json::object(), manifest.place() + ": shards");
    MAKAR_TRY(const std::string name, shard.text("name"));
    if (name.find('/') != std::string::npos) return shard.field_error("name", "must be a file of the folder");
    Shard s;
    s.ids_32bit = bits == 32, s.begin = store.tokens_;
    MAKAR_TRY(s.tokens, shard.integer("tokens", 0, int64_t{1} << 40));
    MAKAR_TRY(const int64_t documents, shard.integer("documents", 0, int64_t{1} << 40));
    MAKAR_TRY(const bool masked, shard.boolean_or("masked", false));
    const std::string path = folder + "/" + name;
    MAKAR_TRY(s.ids, MappedFile::open(path + ".tokens"));
    MAKAR_TRY(const auto index, MappedFile::open(path + ".index"));
    if (s.ids->bytes().size() != static_cast<size_t>(s.tokens) * width ||
        index->bytes().size() != static_cast<size_t>(documents) * 8)
      return error_at(path,
                      "the shard's files have other sizes than manifest.json says; prepare the data again");
    MAKAR_TRY(const std::string sum, shard.text_or("sha256", ""));
    Sha256 actual;
    actual.add(s.ids->bytes());
    if (!sum.empty() && actual.hex() != sum)
      return error_at(path + ".tokens", "does not match its hash in manifest.json; prepare the data again");
    if (masked) {
      MAKAR_TRY(s.mask, MappedFile::open(path + ".mask"));
      if (s.mask->bytes().size() != static_cast<size_t>(s.tokens))
        return error_at(path + ".mask", "has another size than manifest.json says; prepare the data again");
    }
    int64_t last = 0;
    for (int64_t d = 0; d < documents; ++d) {
      int64_t end = 0;
      std::memcpy(&end, index->bytes().data() + d * 8, 8);
      if (end <= last || end > s.tokens)
        return error_at(path + ".index", "document {} does not end inside the shard; prepare the data again",
                        d);
      last = end;
      store.ends_.push_back(s.begin + end);
    }
    if (last != s.tokens)
      return error_at(path + ".index",
                      "the last document does not end with the shard; prepare the data again");
    store.tokens_ += s.tokens;
    store.shards_.push_back(std::move(s));
  }
  MAKAR_TRY(const int64_t begin, range.integer_or("begin", 0, 0, store.tokens_));
  MAKAR_TRY(const int64_t end, range.integer_or("end", store.tokens_, begin, store.tokens_));
  store.trim(begin, end);
  return store;
}

// Keeps tokens [begin, end); truncates documents at both edges.
void TokenStore::trim(int64_t begin, int64_t end) {
  std::vector<int64_t> trimmed_ends;
  for (const int64_t e : ends_)
    if (e > begin && e < end) trimmed_ends.push_back(e - begin);
  if (end > begin) trimmed_ends.push_back(end - begin);
  ends_ = std::move(trimmed_ends);
  offset_ = begin, tokens_ = end - begin;
}

TokenStore TokenStore::from_memory(const std::vector<std::vector<uint32_t>>& documents,
                                   const std::vector<std::vector<uint8_t>>& masks) {
  TokenStore store;
  Shard s;
  s.ids_32bit = true;
  for (size_t d = 0; d < documents.size(); ++d) {
    if (documents[d].empty()) continue;
    s.memory_ids.insert(s.memory_ids.end(), documents[d].begin(), documents[d].end());
    if (!masks.empty()) s.memory_mask.insert(s.memory_mask.end(), masks[d].begin(), masks[d].end());
    for (const uint32_t id : documents[d]) store.vocab_ = std::max<int64_t>(store.vocab_, int64_t{id} + 1);
    store.ends_.push_back(static_cast<int64_t>(s.memory_ids.size()));
  }
  s.tokens = store.tokens_ = static_cast<int64_t>(s.memory_ids.size());
  store.shards_.push_back(std::move(s));
  return store;
}

std::vector<TokenRange> TokenStore::document_ranges(int64_t begin, int64_t end) const {
  std::vector<TokenRange> out;
  auto it = std::upper_bound(ends_.begin(), ends_.end(), begin);
  for (; begin < end && it != ends_.end(); ++it) {
    out.push_back({begin, std::min(end, *it)});
    begin = out.back().end;
  }
  return out;
}

std::vector<int64_t> TokenStore::read(TokenRange range) const {
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(range.size()));
  const int64_t begin = range.begin + offset_, end = range.end + offset_;
  for (const Shard& s : shards_) {
    const int64_t from = std::max(begin, s.begin), to = std::min(end, s.begin + s.tokens);
    for (int64_t i = from - s.begin; i < to - s.begin; ++i) {
      if (!s.memory_ids.empty())
        out.push_back(s.memory_ids[static_cast<size_t>(i)]);
      else if (s.ids_32bit)
        out.push_back(reinterpret_cast<const uint32_t*>(s.ids->bytes().data())[i]);
      else
        out.push_back(reinterpret_cast<const uint16_t*>(s.ids->bytes().data())[i]);
    }
  }
  // File content is not trusted: an id outside the manifest's vocabulary would index out of bounds.
  for (int64_t& id : out)
    if (id >= vocab_) id = 0;
  return out;
}

bool TokenStore::masked() const {
  return std::any_of(shards_.begin(), shards_.end(),
                     [](const Shard& s) { return s.mask || !s.memory_mask.empty(); });
}

std::vector<uint8_t> TokenStore::mask(TokenRange range) const {
  std::vector<uint8_t> out;
  out.reserve(static_cast<size_t>(range.size()));
  const int64_t begin = range.begin + offset_, end = range.end + offset_;
  for (const Shard& s : shards_) {
    const int64_t from = std::max(begin, s.begin), to = std::min(end, s.begin + s.tokens);
    for (int64_t i = from - s.begin; i < to - s.begin; ++i) {
      if (!s.memory_mask.empty())
        out.push_back(s.memory_mask[static_cast<size_t>(i)]);
      else if (s.mask)
        out.push_back(static_cast<uint8_t>(s.mask->bytes()[static_cast<size_t>(i)]));
      else
        out.push_back(1);
    }
  }
  return out;
}

}  // namespace makar
