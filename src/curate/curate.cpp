#include "curate/curate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_set>

#include "base/file_writer.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/rng.h"
#include "curate/clean.h"
#include "curate/document_filter.h"
#include "curate/near_duplicates.h"
#include "data/schema.h"
#include "data/spool.h"

namespace makar {
namespace {

// A document that passed all filters but the search for near-duplicates.
struct StoredDocument {
  std::string text, place, other_fields;
  uint64_t bytes = 0;
  uint32_t source = 0;
  std::vector<uint64_t> groups;
  static auto fields() {
    return std::make_tuple(&StoredDocument::text, &StoredDocument::place, &StoredDocument::other_fields,
                           &StoredDocument::bytes, &StoredDocument::source, &StoredDocument::groups);
  }
};

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

int log2_of(size_t bytes) { return bytes > 0 ? static_cast<int>(std::log2(static_cast<double>(bytes))) : 0; }

class Curation {
 public:
  Curation(const CurateOptions& o, DocumentFilter filter, ThreadPool& pool)
      : o_(o), filter_(std::move(filter)), pool_(pool) {}

  Result<CurateReport> run(const std::vector<DataPath>& paths) {
    if (o_.near > 0) {
      MAKAR_TRY(auto near, NearDuplicates::create());
      near_.emplace(std::move(near));
    }
    MAKAR_TRY(auto writer, FileWriter::open(o_.output));
    MAKAR_RETURN_IF_ERROR(read_all(paths, writer));
    if (near_) MAKAR_RETURN_IF_ERROR(write_groups(writer));
    MAKAR_RETURN_IF_ERROR(writer.commit());
    return report_;
  }

 private:
  static constexpr size_t kBatchDocuments = 256, kBatchBytes = size_t{64} << 20;

  Status read_all(const std::vector<DataPath>& paths, FileWriter& writer) {
    for (size_t i = 0; i < paths.size(); ++i)
      report_.sources.push_back({paths[i].path, o_.weights.empty() ? 1.0 : o_.weights[i]});
    if (o_.groups)
      for (const std::string& name : o_.groups->groups()) report_.groups.push_back({name, {}});
    for (const DataPath& path : paths)  // a missing path fails before any work
      if (path.path != "-") MAKAR_RETURN_IF_ERROR(RecordReader::open({path}));
    for (uint32_t i = 0; i < paths.size(); ++i) MAKAR_RETURN_IF_ERROR(read_source(paths[i], i, writer));
    return Done{};
  }

  Status read_source(const DataPath& path, uint32_t source, FileWriter& writer) {
    MAKAR_TRY(auto reader, RecordReader::open({path}));
    std::vector<FilteredDocument> batch;
    size_t bytes = 0;
    for (DataRecord record;;) {
      MAKAR_TRY(const bool found, reader.next(record));
      if (found) {
        FilteredDocument& d = batch.emplace_back();
        d.text = record_text(record.value), d.place = record.place(), d.bytes = d.text.size();
        d.source = source;
        bytes += d.bytes;
        filter_.check_fields(record.value, d);
        if (o_.keep_fields && record.value.is_object()) {
          const Json* text = text_field(record.value);
          for (auto field = record.value.begin(); field != record.value.end(); ++field)
            if (&*field == text) {
              record.value.erase(field);
              break;
            }
          d.other_fields = record.value.dump(-1, ' ', false, Json::error_handler_t::replace);
          bytes += d.other_fields.size();
        }
      }
      if (!batch.empty() && (!found || batch.size() == kBatchDocuments || bytes > kBatchBytes)) {
        MAKAR_RETURN_IF_ERROR(process(batch, writer));
        batch.clear(), bytes = 0;
      }
      if (!found) break;
    }
    report_.bad_records += reader.bad().count;
    return Done{};
  }

  Status process(std::vector<FilteredDocument>& batch, FileWriter& writer) {
    pool_.run(static_cast<int64_t>(batch.size()),
              [&](int64_t i) { filter_.filter(batch[static_cast<size_t>(i)]); });
    for (FilteredDocument& d : batch) {
      ++report_.documents, report_.bytes += d.bytes, ++report_.lengths[log2_of(d.bytes)];
      ++report_.sources[d.source].documents;
      for (size_t i = 0; i < d.groups.size(); ++i)
        report_.groups[i].second.documents += d.groups[i] > 0,
            report_.groups[i].second.mentions += d.groups[i];
      for (const char* name : d.changed) ++report_.changed[name];
      if (!d.language.empty()) ++report_.languages[d.language];
      if (std::isfinite(d.perplexity) && d.perplexity >= 1)
        ++report_.perplexities[static_cast<int>(std::log2(d.perplexity))];
      if (d.toxicity >= 0) ++report_.toxicities[std::min(9, static_cast<int>(d.toxicity * 10))];
      if (d.reason.empty() && o_.exact && !text_hashes_.insert({d.hash[0], d.hash[1]}).second)
        d.drop("exact-duplicate", "an earlier document has the same text");
      if (!d.reason.empty()) {
        drop(d.reason, d.bytes, d.place, d.detail);
        continue;
      }
      for (size_t i = 0; i < kPiiKinds; ++i) report_.pii[i] += d.pii[i];
      if (near_) {
        MAKAR_RETURN_IF_ERROR(near_->add(d.signature));
        MAKAR_RETURN_IF_ERROR(stored_.add({d.text, d.place, d.other_fields, d.bytes, d.source, d.groups}));
      } else {
        MAKAR_RETURN_IF_ERROR(keep({d.text, d.place, d.other_fields, d.bytes, d.source, d.groups}, writer));
      }
    }
    o_.progress("filtering", report_.documents, report_.bytes);
    return Done{};
  }

  void drop(const std::string& reason, size_t bytes, const std::string& place, const std::string& detail) {
    auto& entry = report_.drops[reason];
    if (entry.documents == 0) entry.example = place + ": " + detail;
    ++entry.documents, entry.bytes += bytes;
  }
  Status keep(const StoredDocument& d, FileWriter& writer) {
    auto& source = report_.sources[d.source];
    ++report_.kept, report_.kept_bytes += d.text.size(), ++report_.kept_lengths[log2_of(d.text.size())];
    ++source.kept;
    for (size_t i = 0; i < d.groups.size(); ++i)
      report_.groups[i].second.kept_documents += d.groups[i] > 0,
          report_.groups[i].second.kept_mentions += d.groups[i];
    Json out = Json::object();
    if (!d.other_fields.empty()) {
      MAKAR_TRY(out, parse_json(d.other_fields, d.place, {size_t{1} << 30, 512}));
    }
    out["text"] = d.text;
    const std::string line = out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    const Rng rng(static_cast<uint64_t>(o_.seed), Purpose::kShuffle);
    const double fraction = source.weight - std::floor(source.weight);
    const uint64_t copies =
        static_cast<uint64_t>(source.weight) + (static_cast<double>(rng.uniform(report_.kept)) < fraction);
    for (uint64_t i = 0; i < copies; ++i) MAKAR_RETURN_IF_ERROR(writer.write(line));
    source.written += copies, source.bytes += copies * d.text.size();
    return Done{};
  }

  // Writes the first document of each group of near-duplicates and drops the others.
  Status write_groups(FileWriter& writer) {
    o_.progress("near-duplicates", report_.documents, report_.bytes);
    const auto exact = [this](uint32_t a, uint32_t b) -> Result<double> {
      MAKAR_TRY(const StoredDocument first, stored_.read(a));
      MAKAR_TRY(const StoredDocument second, stored_.read(b));
      return exact_similarity(first.text, second.text);
    };
    MAKAR_TRY(const auto groups, near_->groups(o_.near, exact));
    for (uint32_t i = 0; i < groups.size(); ++i) {
      MAKAR_TRY(const StoredDocument d, stored_.read(i));
      if (groups[i] == i) {
        MAKAR_RETURN_IF_ERROR(keep(d, writer));
      } else {
        MAKAR_TRY(const StoredDocument first, stored_.read(groups[i]));
        drop("near-duplicate", d.bytes, d.place, "similar to " + first.place);
      }
      if (i % 4096 == 0) o_.progress("writing", i, report_.kept_bytes);
    }
    return Done{};
  }

  struct PairHash {
    size_t operator()(const std::pair<uint64_t, uint64_t>& p) const { return p.first; }
  };
  const CurateOptions& o_;
  const DocumentFilter filter_;
  ThreadPool& pool_;
  std::optional<NearDuplicates> near_;
  SpoolOf<StoredDocument> stored_{folder_of(o_.output)};  // in unnamed files
  std::unordered_set<std::pair<uint64_t, uint64_t>, PairHash> text_hashes_;
  CurateReport report_;
};

}  // namespace

Status check(const CurateOptions& o) {
  std::vector<std::string> known;
  for (const Cleaner& c : cleaners()) known.emplace_back(c.name);
  for (const std::string& name : o.clean)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return error_at("`clean`", "unknown cleaner '{}'{}; available: {}", name, did_you_mean(name, known),
                      fmt::join(known, ", "));
  if (!(o.near >= 0 && o.near <= 1)) return error_at("`near`", "must be 0 to 1, got {}", o.near);
  if (!(o.min_language_score >= 0 && o.min_language_score <= 1))
    return error_at("`language_score`", "must be 0 to 1, got {}", o.min_language_score);
  if (o.min_words < 0) return error_at("`min_words`", "must be 0 or more, got {}", o.min_words);
  if (o.min_tokens < 0) return error_at("`min_tokens`", "must be 0 or more, got {}", o.min_tokens);
  for (const double w : o.weights)
    if (!(w > 0 && w <= 1000))
      return error_at("datasets", "a weight must be above 0 and at most 1000, got {}", w);
  if (o.contamination < 0 || o.contamination > 1000)
    return error_at("`contamination`", "must be 0 to 1000, got {}", o.contamination);
  if (!(o.max_perplexity >= 0))
    return error_at("`max_perplexity`", "must be 0 or more, got {}", o.max_perplexity);
  return Done{};
}

Result<CurateReport> curate(const std::vector<DataPath>& paths, const CurateOptions& options,
                            ThreadPool& pool) {
  MAKAR_RETURN_IF_ERROR(check(options));
  check(options.weights.empty() || options.weights.size() == paths.size(), "one weight per path");
  check(options.min_tokens == 0 || options.count_tokens, "min_tokens needs count_tokens");
  MAKAR_TRY(auto filter, DocumentFilter::create(options));
  return Curation(options, std::move(filter), pool).run(paths);
}

}  // namespace makar
