// Builds objects from the sections of a tokenizer.json: each pipeline stage has one table of its kinds, and
// {"type": name, ...} selects the factory. Context is what factories get in addition to the section.
#pragma once
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/json.h"
#include "base/nearest.h"
#include "base/quote.h"
#include "text/field.h"

namespace makar {

template <class Base>
using ComponentResult = Result<std::unique_ptr<const Base>>;

template <class Base, class... Context>
struct ComponentKind {
  const char* name;
  ComponentResult<Base> (*make)(const Json&, Context...);
};

// A null section gives a null pointer; an unknown type is an error that names the nearest known type.
template <class Base, size_t kCount, class... Context>
ComponentResult<Base> make_component(const Json& json, const char* stage,
                                     const ComponentKind<Base, Context...> (&kinds)[kCount],
                                     std::type_identity_t<Context>... context) {
  if (json.is_null()) return ComponentResult<Base>(std::unique_ptr<const Base>());
  MAKAR_TRY(const std::string type, string_field(json, "type"));
  std::vector<std::string> known;
  for (const auto& kind : kinds) {
    if (type == kind.name) {
      auto component = kind.make(json, context...);
      return component.ok() ? std::move(component) : ComponentResult<Base>(component.error().in(type));
    }
    known.emplace_back(kind.name);
  }
  return error_of(Error::Kind::kUnsupported, "", "unknown {} {}{}", stage, quote(type),
                  did_you_mean(type.substr(0, 80), known));
}

// The components of a Sequence, which are sections of the same stage.
template <class Base, class... Context>
Result<std::vector<std::unique_ptr<const Base>>> make_components(const Json& json, const char* key,
                                                                 const Context&... context) {
  MAKAR_TRY(const Json* list, list_field(json, key));
  std::vector<std::unique_ptr<const Base>> parts;
  for (const Json& section : *list) {
    MAKAR_TRY(auto part, Base::from_json(section, context...));
    if (part) parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace makar
