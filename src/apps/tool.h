// A tool that an agent may call: its name, what it does, the schema of its input, and the function.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace makar {

struct Tool {
  std::string name, description;
  Json parameters;  // a JSON schema: an object with properties
  // `seconds`: the time that is left. An error becomes the observation; the model may try again.
  std::function<Result<std::string>(const Json& input, double seconds)> run;
  // Its output was written by others: documents, pages, rows. After it the agent acts on untrusted text.
  bool untrusted = false;
  // Its description has text of others, such as rows: the agent acts on untrusted text from the beginning.
  bool untrusted_description = false;
  // It reaches beyond reading what the user gave: network, programs, other servers. After untrusted text it
  // runs only if a person agrees.
  bool effect = false;
};

// Whether the input has what the schema requires: properties by name, required ones, and types of texts,
// numbers, whole numbers and booleans. Errors name the field.
Status check_input(const Json& schema, const Json& input);

// One text property that is required.
Json text_parameters(const std::string& name, const std::string& description);

}  // namespace makar
