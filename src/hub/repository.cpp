#include "hub/repository.h"

#include <algorithm>
#include <set>

#include "base/quote.h"

namespace makar {
namespace {

constexpr size_t kMaxFiles = 20000, kMaxPathBytes = 512;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> split_path(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('/', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool is_name(const std::string& part) {
  constexpr size_t kMaxNameBytes = 96;
  return !part.empty() && part[0] != '.' && part.size() <= kMaxNameBytes &&
         std::all_of(part.begin(), part.end(),
                     [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_safe_path(const std::string& path) {
  if (path.empty() || path.size() > kMaxPathBytes || path[0] == '/') return false;
  for (const unsigned char c : path)
    if (c < 0x20 || c == '\\' || c == 0x7F) return false;
  const auto parts = split_path(path);
  return std::none_of(parts.begin(), parts.end(), [](const std::string& p) { return p == ".." || p == "."; });
}

bool names_a_file(const std::vector<std::string>& parts) {
  constexpr const char* kSuffixes[] = {".gguf", ".safetensors", ".json", ".jsonl", ".txt",
                                       ".csv",  ".tsv",         ".gz",   ".zst"};
  return !parts.empty() && std::any_of(std::begin(kSuffixes), std::end(kSuffixes),
                                       [&](const char* end) { return parts.back().ends_with(end); });
}

Result<HubSource> parse_url(const std::string& text, bool dataset) {
  const size_t host = text.find("://") + 3;
  const size_t slash = std::min(text.find('/', host), text.size());
  std::vector<std::string> parts = split_path(text.substr(slash, text.find_first_of("?#", slash) - slash));
  HubSource out;
  out.dataset = dataset;
  if (!parts.empty() && parts[0] == "datasets") out.dataset = true, parts.erase(parts.begin());
  const auto kind = std::find_if(parts.begin(), parts.end(), [](const std::string& p) {
    return p == "resolve" || p == "blob" || p == "tree";
  });
  const bool repository = kind != parts.end() ? kind - parts.begin() <= 2 && kind + 1 != parts.end()
                                              : parts.size() <= 2 && !names_a_file(parts);
  if (parts.empty() || !repository) {
    if (parts.empty() || !is_safe_path(parts.back()))
      return error_at(quote(text), "expected the URL of a repository or of a file");
    return out.url = text, out;
  }
  if (kind == parts.begin() || !std::all_of(parts.begin(), kind, is_name))
    return error_at(quote(text), "expected the URL of a repository or of a file");
  out.endpoint = text.substr(0, slash);
  for (auto part = parts.begin(); part != kind; ++part)
    out.repository += (out.repository.empty() ? "" : "/") + *part;
  if (kind != parts.end()) {
    out.revision = *(kind + 1);
    for (auto part = kind + 2; part != parts.end(); ++part) out.file += (out.file.empty() ? "" : "/") + *part;
    if (!is_safe_path(out.revision) || (!out.file.empty() && !is_safe_path(out.file)))
      return error_at(quote(text),
                      "the revision or the file name is not allowed: '..', backslashes and control "
                      "characters are refused");
  }
  return out;
}

}  // namespace

Result<HubSource> parse_source(const std::string& text, bool dataset) {
  if (text.starts_with("http://") || text.starts_with("https://")) return parse_url(text, dataset);
  HubSource out;
  out.dataset = dataset;
  std::string name = text.starts_with("hf.co/") ? text.substr(6) : text;
  const size_t colon = name.find(':');
  if (colon != name.npos) out.variant = name.substr(colon + 1), name.resize(colon);
  if (const size_t at = name.find('@'); at != name.npos) out.revision = name.substr(at + 1), name.resize(at);
  const auto parts = split_path(name);
  if (parts.empty() || parts.size() > 2 || !std::all_of(parts.begin(), parts.end(), is_name) ||
      out.revision.empty() || !is_safe_path(out.revision) || (colon != text.npos && !is_name(out.variant)))
    return error_at(quote(text),
                    "expected OWNER/NAME, OWNER/NAME@REVISION, OWNER/NAME:QUANTIZATION or a URL");
  out.repository = name;
  return out;
}

Result<HubListing> parse_listing(const std::string& json, const std::string& place) {
  MAKAR_TRY(const Json root, parse_json(json, place));
  if (!root.is_object() || !root.contains("siblings") || !root["siblings"].is_array())
    return error_at(place, "expected an object with \"siblings\"; is this a Hugging Face endpoint?");
  HubListing out;
  if (root.contains("sha") && root["sha"].is_string()) out.commit = root["sha"].get<std::string>();
  if (!out.commit.empty() && !is_name(out.commit))
    return error_at(place, "{} is not a valid commit id", quote(out.commit));
  const Json& all = root["siblings"];
  if (all.size() > kMaxFiles)
    return error_of(Error::Kind::kLimit, place, "the repository has {} files; at most {} are supported",
                    all.size(), kMaxFiles);
  const auto text = [](const Json& object, const char* key) {
    return object.is_object() && object.contains(key) && object[key].is_string()
               ? object[key].get<std::string>()
               : std::string();
  };
  for (const Json& one : all) {
    HubFile file;
    file.path = text(one, "rfilename");
    if (!is_safe_path(file.path))
      return error_at(place,
                      "the file name {} is not allowed: it must be a relative path without '..', backslashes "
                      "and control characters",
                      quote(file.path));
    if (one.contains("size") && one["size"].is_number_unsigned()) file.size = one["size"].get<uint64_t>();
    if (one.contains("lfs")) file.sha256 = text(one["lfs"], "sha256");
    if (file.sha256.empty()) file.git_sha1 = text(one, "blobId");
    out.files.push_back(std::move(file));
  }
  return out;
}

Result<std::vector<HubFile>> choose_files(const HubListing& listing, const HubSource& source) {
  std::vector<HubFile> out;
  const auto& files = listing.files;
  if (!source.file.empty()) {
    for (const HubFile& file : files)
      if (file.path == source.file) return std::vector<HubFile>{file};
    return error_of(Error::Kind::kNotFound, source.repository, "has no file {}", quote(source.file));
  }
  if (source.dataset) return files;
  const auto has_suffix = [](const HubFile& f, const char* end) { return f.path.ends_with(end); };
  const auto at_root = [](const HubFile& f) { return f.path.find('/') == f.path.npos; };
  bool safetensors = false, pickles = false;
  const auto is_pickle = [&](const HubFile& f) {
    return at_root(f) && f.path.starts_with("pytorch_model") && has_suffix(f, ".bin");
  };
  std::vector<std::string> ggufs, others;
  for (const HubFile& file : files) {
    safetensors = safetensors || (has_suffix(file, ".safetensors") && at_root(file));
    pickles = pickles || is_pickle(file);
    if (has_suffix(file, ".gguf")) ggufs.push_back(file.path);
    for (const char* end : {".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx"})
      if (has_suffix(file, end) && at_root(file)) others.push_back(file.path);
  }
  std::string variant = lower(source.variant);
  pickles = pickles && !safetensors && ggufs.empty();
  const bool use_gguf = !variant.empty() || !(safetensors || pickles);
  if (use_gguf && ggufs.empty())
    return error_of(Error::Kind::kUnsupported, source.repository, "has no safetensors or GGUF weights{}",
                    others.empty()
                        ? ""
                        : fmt::format(" (found {}); makar reads safetensors, GGUF and pytorch_model.bin",
                                      others.front()));
  // The default of llama.cpp.
  if (use_gguf && variant.empty() && ggufs.size() > 1) variant = "q4_k_m";
  for (const HubFile& file : files) {
    if (has_suffix(file, ".gguf")) {
      if (use_gguf && lower(file.path).find(variant) != std::string::npos) out.push_back(file);
      continue;
    }
    const bool weights = has_suffix(file, ".safetensors") || (pickles && is_pickle(file));
    if (weights && (use_gguf || !at_root(file))) continue;
    constexpr const char* kTextSuffixes[] = {".json", ".jinja", ".txt", ".model", ".tiktoken"};
    const bool text = std::any_of(std::begin(kTextSuffixes), std::end(kTextSuffixes),
                                  [&](const char* end) { return has_suffix(file, end); });
    // Sentence-transformers models store the pooling configuration in folders such as 1_Pooling.
    const bool pooling = file.path.find("_Pooling/config.json") != std::string::npos;
    if (weights || (text && at_root(file)) || pooling) out.push_back(file);
  }
  if (use_gguf &&
      std::none_of(out.begin(), out.end(), [&](const HubFile& f) { return has_suffix(f, ".gguf"); }))
    return error_of(Error::Kind::kNotFound, source.repository,
                    "has no GGUF file with {} in its name; choose one of these with :VARIANT: {}",
                    quote(variant), fmt::join(ggufs, ", "));
  return out;
}

}  // namespace makar
