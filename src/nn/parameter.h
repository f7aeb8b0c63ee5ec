// Parameters by name. A model's modules hold pointers into one ParameterSet; files, optimisers and adapters
// walk it.
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
  Tensor grad;   // where gradients are gathered; undefined until asked for
  bool trainable = true;
  bool buffer = false;    // saved and loaded, never trained
  bool optional = false;  // a buffer with a value of its own: files may leave it out, and ours do
};

class ParameterSet {
 public:
  ParameterSet() = default;
  ParameterSet(const ParameterSet&) = delete;
  ParameterSet& operator=(const ParameterSet&) = delete;
  ParameterSet(ParameterSet&&) = default;
  ParameterSet& operator=(ParameterSet&&) = default;

  Parameter* add(const std::string& name, const Shape& shape);
  // A second name for a parameter (tied weights).
  void alias(const std::string& name, Parameter* parameter) { names_[name] = parameter; }
  Parameter* find(const std::string& name) const;
  // In the order they were added; tied ones once.
  const std::vector<std::unique_ptr<Parameter>>& all() const { return all_; }

  int64_t count() const;
  // Gradients of trainable parameters are gathered by `tape`, added to what grad already holds.
  void watch(Tape& tape) const;
  // After backward: keeps the tape's gradients in grad.
  void collect(const Tape& tape) const;
  void clear_gradients() const;

 private:
  std::vector<std::unique_ptr<Parameter>> all_;
  std::unordered_map<std::string, Parameter*> names_;
};

}  // namespace makar
