// Any bytes as the name of a repository and as the hub's list of files: accepted names stay inside their
// folder.
#include <string>

#include "hub/repository.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(hub_listing) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string name = text.substr(0, text.find('\n'));
  const auto source = parse_source(name, false);
  if (source.ok()) {
    check(source->repository.empty() != source->url.empty(), "a source is a repository or a file");
    check(("/" + source->repository + "/").find("/../") == std::string::npos,
          "a repository stays in its folder");
  }
  const auto listing = parse_listing(text.substr(std::min(name.size() + 1, text.size())), "test");
  if (!listing.ok()) return 0;
  for (const HubFile& file : listing->files)
    check(!file.path.empty() && file.path[0] != '/' &&
              ("/" + file.path + "/").find("/../") == std::string::npos,
          "a file stays in its folder");
  const auto chosen = choose_files(*listing, source.ok() ? *source : HubSource{});
  if (chosen.ok()) check(chosen->size() <= listing->files.size(), "no more files than listed");
  return 0;
}
