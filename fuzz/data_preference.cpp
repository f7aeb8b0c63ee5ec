// Any JSON as a preference record: a prompt with two answers that begin with the assistant, or a bounded message.
#include "data/preference_record.h"
#include "target.h"

using namespace makar;

FUZZ_TARGET(data_preference) {
  const auto record = parse_json({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!record.ok()) return 0;
  const auto read = to_preference(*record);
  if (!read.ok()) {
    check(read.error().text().size() < 4000, "a bounded message");
    return 0;
  }
  check(read->prompt.is_array() && !read->prompt.empty(), "there is a prompt");
  for (const Json* answer : {&read->chosen, &read->rejected})
    check(answer->is_array() && !answer->empty() && answer->front().value("role", "") == "assistant",
          "an answer begins with the assistant");
  check(read->chosen != read->rejected, "the answers differ");
  return 0;
}
