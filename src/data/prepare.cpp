#include "data/prepare.h"

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/sha256.h"
#include "text/hash.h"

namespace makar {
namespace {

// The text of a record of any schema.
std::string all_texts(const Json& record, Schema schema) {
  if (const Json* text = text_field(record); text && text->is_string()) return text->get<std::string>();
  if (const auto messages = to_messages(record, schema); messages.ok()) {
    std::string out;
    for (const Json& m : *messages)
      if (m["content"].is_string()) out += (out.empty() ? "" : "\n") + m["content"].get<std::string>();
    return out;
  }
  std::string out;
  for (const auto& [key, value] : record.items())
    if (value.is_string()) out += (out.empty() ? "" : "\n") + value.get<std::string>();
  return out;
}

// A document, or one piece of it.
struct DocumentText {
  std::string text;
  bool ends = false, validation = false;
};

// Tokenizes texts in batches of about 8 MiB, to keep all threads busy, and writes them in order.
class Writer {
 public:
  Writer(const Tokenizer& tokenizer, ThreadPool& pool, const PrepareOptions& o, Prepared& counts)
      : tokenizer_(tokenizer),
        pool_(pool),
        o_(o),
        counts_(counts),
        ids_32bit_(tokenizer.vocab_size() > 65536),
        train_(o.folder, "train", ids_32bit_, false),
        validation_(o.folder, "validation", ids_32bit_, false) {}

  Status add(DocumentText document) {
    counts_.bytes += document.text.size();
    buffered_bytes_ += document.text.size();
    texts_.push_back(std::move(document));
    constexpr size_t kBatchBytes = size_t{8} << 20, kBatchTexts = 65536;
    return buffered_bytes_ >= kBatchBytes || texts_.size() >= kBatchTexts ? flush() : Status(Done{});
  }

  Status flush() {
    std::vector<std::string_view> texts;
    for (const DocumentText& document : texts_) texts.push_back(document.text);
    EncodeOptions encode;
    encode.offsets = false;
    auto encoded = tokenizer_.encode_batch(texts, encode, pool_);
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!encoded[i].ok()) return encoded[i].error();
      std::vector<uint32_t>& ids = encoded[i]->ids;
      if (texts_[i].ends && o_.end_of_document >= 0) ids.push_back(static_cast<uint32_t>(o_.end_of_document));
      TokenWriter& writer = texts_[i].validation ? validation_ : train_;
      document_open_ = document_open_ || !ids.empty();
      if (!document_open_) continue;  // skip a document without tokens
      MAKAR_RETURN_IF_ERROR(writer.add(ids, texts_[i].ends));
      if (texts_[i].ends) document_open_ = false;
    }
    texts_.clear();
    buffered_bytes_ = 0;
    if (o_.progress)
      o_.progress(train_.documents() + validation_.documents(), train_.tokens() + validation_.tokens());
    return Done{};
  }

  Result<Json> finish() {
    MAKAR_RETURN_IF_ERROR(flush());
    Json splits = Json::object();
    MAKAR_TRY(const Json train, train_.finish());
    MAKAR_TRY(const Json validation, validation_.finish());
    counts_.documents = train_.documents(), counts_.tokens = train_.tokens();
    counts_.validation_documents = validation_.documents(), counts_.validation_tokens = validation_.tokens();
    splits["train"] = {{"shards", train}};
    if (!validation.empty()) splits["validation"] = {{"shards", validation}};
    return splits;
  }
  bool ids_32bit() const { return ids_32bit_; }

 private:
  const Tokenizer& tokenizer_;
  ThreadPool& pool_;
  const PrepareOptions& o_;
  Prepared& counts_;
  bool ids_32bit_, document_open_ = false;
  TokenWriter train_, validation_;
  std::vector<DocumentText> texts_;
  size_t buffered_bytes_ = 0;
};

Status write_manifest(const PrepareOptions& o, const Tokenizer& tokenizer,
                      const std::vector<std::string>& files, Prepared& counts, Json splits, bool ids_32bit) {
  if (o.validation_at_end && o.validation > 0) {
    const auto train_tokens =
        static_cast<uint64_t>(static_cast<double>(counts.tokens) * (1.0 - o.validation));
    splits["train"]["end"] = train_tokens;
    splits["validation"] = {{"range_of", "train"}, {"begin", train_tokens}};
    counts.validation_tokens = counts.tokens - train_tokens, counts.tokens = train_tokens;
  }
  const std::string text = tokenizer.to_json().dump() + "\n";
  MAKAR_RETURN_IF_ERROR(write_file(o.folder + "/tokenizer.json", text));
  Json sources = Json::array();
  for (const std::string& file : files) {
    MAKAR_TRY(const std::string sum, sha256_of_file(file));
    sources.push_back({{"path", file}, {"sha256", sum}});
  }
  const Json manifest = {{"format", "makar-tokens-1"},
                         {"bits", ids_32bit ? 32 : 16},
                         {"vocab_size", tokenizer.vocab_size()},
                         {"tokenizer_sha256", sha256_of(text)},
                         {"schema", counts.schema},
                         {"end_of_document", o.end_of_document},
                         {"documents", counts.documents},
                         {"tokens", counts.tokens},
                         {"validation_documents", counts.validation_documents},
                         {"validation_tokens", counts.validation_tokens},
                         {"bytes", counts.bytes},
                         {"bad_records", counts.bad.count},
                         {"splits", splits},
                         {"sources", sources}};
  return write_file(o.folder + "/manifest.json", manifest.dump(2) + "\n");
}

}  // namespace

bool in_validation(std::string_view document, double share, uint64_t seed) {
  const uint64_t h = fold_multiply(hash_bytes(document) ^ (seed * 0x9E3779B97F4A7C15u), 0xE7037ED1A0B428DBu);
  return static_cast<double>(h >> 11) * 0x1p-53 < share;
}

bool ValidationSplit::selects(std::string_view content) {
  const uint64_t number = seen_++;
  const bool selected =
      first_selected_ != kNever ? number >= first_selected_ : share_ > 0 && in_validation(content, share_, 0);
  selected_ += selected ? 1 : 0;
  return selected;
}

std::optional<ValidationSplit> ValidationSplit::tail() const {
  const bool divided = selected_ > 0 && selected_ < seen_;
  if (!(share_ > 0) || first_selected_ != kNever || divided || seen_ < 2) return std::nullopt;
  const auto last = static_cast<uint64_t>(std::llround(share_ * static_cast<double>(seen_)));
  return ValidationSplit(share_, seen_ - std::clamp<uint64_t>(last, 1, seen_ - 1));
}

Result<Prepared> prepare_tokens(const Tokenizer& tokenizer, ThreadPool& pool, const PrepareOptions& options) {
  MAKAR_TRY(auto reader, RecordReader::open(options.paths));
  MAKAR_RETURN_IF_ERROR(make_folder(options.folder));
  Prepared counts;
  Writer writer(tokenizer, pool, options, counts);
  DocumentText document;
  bool pending = false;
  for (DataRecord record;;) {
    MAKAR_TRY(const bool found, reader.next(record));
    if (pending && (!found || !record.continues)) {
      document.ends = true;
      MAKAR_RETURN_IF_ERROR(writer.add(std::move(document)));
      pending = false;
    }
    if (!found) break;
    const auto schema = detect_schema(record.value);
    std::string text = schema ? all_texts(record.value, *schema) : "";
    if (text.empty() && !record.continues) {
      if (schema)
        reader.bad().add(record.place(), "the record has no text");
      else
        reader.bad().add_once(record.place(), unexpected_schema_message(record.value, {Schema::kText}));
      continue;
    }
    if (counts.schema.empty()) counts.schema = name(*schema);
    const bool first = !pending;
    if (pending) MAKAR_RETURN_IF_ERROR(writer.add(std::move(document)));
    const bool validation = first ? !options.validation_at_end && options.validation > 0 &&
                                        in_validation(text, options.validation, options.seed)
                                  : document.validation;
    document = {std::move(text), false, validation};
    pending = true;
  }
  MAKAR_TRY(Json splits, writer.finish());
  counts.bad = reader.bad();
  const bool one_part = (counts.tokens == 0) != (counts.validation_tokens == 0);
  if (one_part && options.validation > 0 && !options.validation_at_end) {
    PrepareOptions at_end = options;
    at_end.validation_at_end = true;
    MAKAR_TRY(counts, prepare_tokens(tokenizer, pool, at_end));
    counts.split_at_end = true;
    return counts;
  }
  if (counts.tokens == 0)
    return error_at(options.paths.front().path,
                    "there is no text to train on ({} records could not be used{})", counts.bad.count,
                    counts.bad.reported.empty() ? "" : ": " + counts.bad.reported.front());
  MAKAR_RETURN_IF_ERROR(
      write_manifest(options, tokenizer, reader.files(), counts, std::move(splits), writer.ids_32bit()));
  return counts;
}

}  // namespace makar
