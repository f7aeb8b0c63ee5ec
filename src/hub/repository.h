// Repositories of the Hugging Face hub: parsing names and listings, and choosing the files that a model
// needs.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace makar {

// The parsed argument of `makar pull`.
struct HubSource {
  std::string repository;         // "OWNER/NAME" or "NAME"; empty for a plain URL
  std::string revision = "main";  // branch, tag or commit
  std::string variant = {};       // ":Q4_K_M": selects a GGUF file
  std::string file = {};          // a single file of the repository
  std::string endpoint = {};      // from a repository URL; empty: the configured one
  std::string url = {};           // a file outside the hub
  bool dataset = false;
};

// Parses "OWNER/NAME" with optional @REVISION and :VARIANT, or the URL of a repository, of a file in one, or
// of any other file.
Result<HubSource> parse_source(const std::string& text, bool dataset);

struct HubFile {
  std::string path;  // relative and validated: no ".."
  uint64_t size = 0;
  std::string sha256;    // for large files; otherwise git_sha1
  std::string git_sha1;  // SHA-1 of "blob SIZE\0" and the content
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;
};

// Parses the hub's response for a revision. Errors: an unexpected format, paths that leave the folder.
Result<HubListing> parse_listing(const std::string& json, const std::string& place);

// Selects the files that a model needs: configuration, tokenizer, chat template and weights. The weights are
// GGUF of one variant if the source names one; otherwise safetensors, GGUF or pytorch_model.bin, the first
// that exists. A dataset needs all files. Errors: no such weights, an unknown variant.
Result<std::vector<HubFile>> choose_files(const HubListing& listing, const HubSource& source);

}  // namespace makar
