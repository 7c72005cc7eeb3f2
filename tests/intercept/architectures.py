"""Small random-weight models of ``transformers``: a configuration class, its sizes, a model class, inputs."""

import torch

TEXT = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
DECODER = {**TEXT, "num_key_value_heads": 1, "bos_token_id": 1, "eos_token_id": 2}
IMAGE = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def ids():
    return {
        "input_ids": torch.arange(1, 13).reshape(2, 6),
        "attention_mask": torch.ones(2, 6, dtype=torch.long),
    }


def both():
    return {**ids(), "decoder_input_ids": torch.arange(1, 9).reshape(2, 4)}


def pixels(size=32):
    return {"pixel_values": torch.linspace(-1, 1, 2 * 3 * size * size).reshape(2, 3, size, size)}


def waves():
    return {"input_values": torch.linspace(-1, 1, 2 * 2000).reshape(2, 2000)}


# name -> (configuration class, its arguments, model class, inputs)
FAST = {
    "bert": ("BertConfig", TEXT, "BertModel", ids),
    "gpt2": (
        "GPT2Config",
        {"vocab_size": 64, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64},
        "GPT2LMHeadModel",
        ids,
    ),
    "resnet": (
        "ResNetConfig",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
        "ResNetForImageClassification",
        pixels,
    ),
    "vit": ("ViTConfig", IMAGE, "ViTModel", pixels),
    "t5": (
        "T5Config",
        {
            "vocab_size": 64,
            "d_model": 16,
            "d_kv": 8,
            "d_ff": 32,
            "num_layers": 2,
            "num_heads": 2,
            "decoder_start_token_id": 0,
        },
        "T5Model",
        both,
    ),
}
MORE = {
    "roberta": ("RobertaConfig", TEXT, "RobertaModel", ids),
    "distilbert": (
        "DistilBertConfig",
        {"vocab_size": 64, "dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32},
        "DistilBertModel",
        ids,
    ),
    "albert": ("AlbertConfig", {**TEXT, "embedding_size": 8}, "AlbertModel", ids),
    "electra": ("ElectraConfig", {**TEXT, "embedding_size": 8}, "ElectraModel", ids),
    "deberta": ("DebertaConfig", TEXT, "DebertaModel", ids),
    "deberta_v2": (
        "DebertaV2Config",
        {**TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
        "DebertaV2Model",
        ids,
    ),
    "mpnet": ("MPNetConfig", TEXT, "MPNetModel", ids),
    "xlm_roberta": ("XLMRobertaConfig", TEXT, "XLMRobertaModel", ids),
    "llama": ("LlamaConfig", DECODER, "LlamaForCausalLM", ids),
    "mistral": ("MistralConfig", DECODER, "MistralForCausalLM", ids),
    "qwen2": ("Qwen2Config", DECODER, "Qwen2ForCausalLM", ids),
    "gemma": ("GemmaConfig", {**DECODER, "head_dim": 8}, "GemmaForCausalLM", ids),
    "phi": ("PhiConfig", DECODER, "PhiForCausalLM", ids),
    "gpt_neox": ("GPTNeoXConfig", TEXT, "GPTNeoXForCausalLM", ids),
    "opt": (
        "OPTConfig",
        {
            "vocab_size": 64,
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "ffn_dim": 32,
            "word_embed_proj_dim": 16,
            "max_position_embeddings": 64,
        },
        "OPTForCausalLM",
        ids,
    ),
    "bloom": (
        "BloomConfig",
        {"vocab_size": 64, "hidden_size": 16, "n_layer": 2, "n_head": 2},
        "BloomForCausalLM",
        ids,
    ),
    "mixtral": ("MixtralConfig", {**DECODER, "num_local_experts": 2}, "MixtralForCausalLM", ids),
    "bart": (
        "BartConfig",
        {
            "vocab_size": 64,
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "max_position_embeddings": 64,
        },
        "BartModel",
        both,
    ),
    "swin": (
        "SwinConfig",
        {
            "image_size": 32,
            "patch_size": 4,
            "embed_dim": 8,
            "depths": [1, 1],
            "num_heads": [2, 2],
            "window_size": 4,
        },
        "SwinModel",
        pixels,
    ),
    "convnext": (
        "ConvNextConfig",
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
        "ConvNextModel",
        pixels,
    ),
    "mobilenet_v2": (
        "MobileNetV2Config",
        {"image_size": 32, "depth_multiplier": 0.25},
        "MobileNetV2Model",
        pixels,
    ),
    "dinov2": (
        "Dinov2Config",
        {**{k: v for k, v in IMAGE.items() if k != "intermediate_size"}},
        "Dinov2Model",
        pixels,
    ),
    "segformer": (
        "SegformerConfig",
        {
            "hidden_sizes": [8, 16, 16, 16],
            "depths": [1, 1, 1, 1],
            "num_attention_heads": [1, 2, 2, 2],
            "decoder_hidden_size": 16,
        },
        "SegformerModel",
        pixels,
    ),
    "wav2vec2": (
        "Wav2Vec2Config",
        {
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "conv_dim": [16, 16],
            "conv_stride": [5, 4],
            "conv_kernel": [10, 8],
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
        },
        "Wav2Vec2Model",
        waves,
    ),
    "mamba": (
        "MambaConfig",
        {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4},
        "MambaForCausalLM",
        lambda: {"input_ids": torch.arange(1, 13).reshape(2, 6)},
    ),
}
