// Any bytes as a saved conversation: an Error, or messages with known roles that round-trip.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "llm/session.h"
#include "target.h"

FUZZ_TARGET(llm_session) {
  using namespace makar;
  const auto messages = read_session(std::string(reinterpret_cast<const char*>(data), size), "session");
  if (!messages.ok()) return 0;
  for (const Json& m : *messages)
    if (m.size() != 2 || !m.at("content").is_string() || m.at("role").get<std::string>().empty())
      std::abort();
  const auto reread = read_session(write_session(*messages), "again");
  if (!reread.ok() || *reread != *messages) std::abort();
  return 0;
}
