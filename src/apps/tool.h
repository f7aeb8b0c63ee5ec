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
  // The output may contain text of third parties (documents, pages, rows). After a call the agent treats its
  // context as untrusted.
  bool untrusted = false;
  // The description contains text of third parties, such as rows: the context is untrusted from the first
  // step.
  bool untrusted_description = false;
  // The tool acts outside of the data that the user gave: network, programs, other servers. In an untrusted
  // context a call needs a person's approval.
  bool effect = false;
};

// Whether the input has what the schema requires: properties by name, required ones, and types of texts,
// numbers, integers and booleans. Errors name the field.
Status check_input(const Json& schema, const Json& input);

// The schema of an object with one required text property.
Json text_parameters(const std::string& name, const std::string& description);

}  // namespace makar
