// Parameters by name. A model's layers hold pointers into one ParameterSet; loaders, optimisers and adapters
// iterate over it.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "ops/tape.h"

namespace makar {

struct Parameter {
  std::string name;
  Shape shape;
  Tensor value;  // undefined until loaded or initialised
  Tensor grad;   // gradient accumulator; undefined until requested
  bool trainable = true;
  bool buffer = false;     // saved and loaded, never trained
  bool optional = false;   // a buffer with a default value: files may omit it, and makar does not write it
  bool auxiliary = false;  // trained with the model but not part of it: neither saved nor counted
  bool of_expert = false;  // if no token is routed to the expert, the gradient is zero, not missing
};

class ParameterSet {
 public:
  ParameterSet() = default;
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;
  ParameterSet(ParameterSet&&) = default;
  ParameterSet& operator=(ParameterSet&&) = default;

  Parameter* add(const std::string& name, const Shape& shape);
  // Adds a second name for a parameter (tied weights).
  void alias(const std::string& name, Parameter* parameter) { names_[name] = parameter; }
  Parameter* find(const std::string& name) const;
  // In insertion order; tied parameters once.
  const std::vector<std::unique_ptr<Parameter>>& all() const { return all_; }

  int64_t count() const;  // of values, without those of buffers and auxiliary parameters
  // Moves all values to `memory`; values already there are not copied.
  void to(Memory& memory) const;
  // Makes `tape` compute the gradients of trainable parameters and add them to those in grad, if defined.
  void watch(Tape& tape) const;
  // Call after backward: stores the tape's gradients, which include those that grad had, in grad.
  void collect(const Tape& tape) const;
  void clear_gradients() const;

 private:
  std::vector<std::unique_ptr<Parameter>> all_;
  std::unordered_map<std::string, Parameter*> names_;
};

}  // namespace makar
