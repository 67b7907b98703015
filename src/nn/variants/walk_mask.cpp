#include "nn/variants/walk_mask.h"

#include <ATen/ATen.h>

#include "topomask/nn/walk_pool.h"
#include "topomask/per_head.h"

namespace topomask {
namespace {

class WalkMask final : public MaskSource {
 public:
  using Rule = MaskPtr (*)(const WalkTable&, const at::Tensor&);

  WalkMask(const VariantSetting& setting, Rule rule) : MaskSource(setting.global_tokens()), rule_(rule) {
    const bool per_head = setting.options.per_head_walks && setting.options.heads > 1;
    const auto rows = per_head ? setting.coefficients().unbind(0) : std::vector<at::Tensor>{setting.coefficients()};
    for (size_t h = 0; h < rows.size(); ++h) {
      tables_.push_back(setting.walks->table(setting.layer, static_cast<int64_t>(h)));
      f_.push_back(register_parameter(per_head ? std::string("f").append(std::to_string(h)) : "f", rows[h].clone()));
    }
  }

  at::Tensor modulation() const override { return f_.size() == 1 ? f_[0] : at::stack(f_); }

 protected:
  MaskPtr make() const override {
    std::vector<MaskPtr> heads;
    for (size_t h = 0; h < f_.size(); ++h) {
      heads.push_back(rule_(tables_[h].to(at::device(f_[h].device()).dtype(f_[h].scalar_type())), f_[h]));
    }
    return heads.size() == 1 ? heads[0] : per_head_mask(heads);  // one table: its f may have a row for each head
  }

 private:
  Rule rule_;
  std::vector<WalkTable> tables_;
  std::vector<at::Tensor> f_;
};

}  // namespace

std::shared_ptr<MaskSource> walk_mask(const VariantSetting& setting,
                                      MaskPtr (*rule)(const WalkTable& walks, const at::Tensor& f)) {
  return std::make_shared<WalkMask>(setting, rule);
}

}  // namespace topomask
