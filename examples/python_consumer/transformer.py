"""mptune's built-in transformer in PyTorch, with the same module names, so that a plan for one splits the other."""
from torch import nn
from torch.nn import functional


class Embedding(nn.Module):
    def __init__(self, d, seq, vocab):
        super().__init__()
        self.token = nn.Embedding(vocab, d)
        self.position = nn.Embedding(seq, d)

    def forward(self, tokens):
        return self.token(tokens) + self.position.weight


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.projection = nn.Linear(d, d)
        self.norm2 = nn.LayerNorm(d)
        self.expand = nn.Linear(d, 4 * d)
        self.contract = nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).flatten(2))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x))))


class Head(nn.Module):
    def __init__(self, d, vocab):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.linear = nn.Linear(d, vocab, bias=False)

    def forward(self, x):
        return self.linear(self.norm(x))


class Transformer(nn.Module):
    def __init__(self, d, layers, heads, seq, vocab):
        super().__init__()
        self.embedding = Embedding(d, seq, vocab)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.head = Head(d, vocab)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
